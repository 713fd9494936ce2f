"""Compiles files. Each line has a source, a target and the name in tracebacks, separated by NUL.

Each file is compiled in its own child process: byte code marks interned strings, and which strings are
interned depends on what the interpreter has run before. Every child has run the same.
"""

import os
import py_compile
import sys
import traceback

MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def compile_one(source: str, target: str, name: str) -> int:
    """Compiles one file; returns the exit status. Wheels may have files for other Python versions."""
    try:
        py_compile.compile(source, target, name, doraise=True, optimize=0, invalidation_mode=MODE)
    except Exception:
        traceback.print_exc()
        return int("/site-packages/" not in name)
    return 0


with open(sys.argv[1], encoding="utf-8") as jobs:
    lines = jobs.read().splitlines()
for line in lines:
    child = os.fork()
    if child == 0:
        os._exit(compile_one(*line.split("\0")))
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(1)
