"""The guest's own code: PID 1 (`init`), the worker that runs user code, and what that code can use.

A guest must be ready within 40 ms of its process start, so modules import little, and what is not
needed at once is imported lazily (`lazy`). The name begins with an underscore because no package
on PyPI can be named so: whatever is installed into an image, it cannot replace this one.
"""
