"""The guest's own machinery: init (PID 1), the worker that runs user code, and the frames between them and the host.

Import lists are kept short on purpose: a guest must be ready within 40 ms of its process start.
"""
