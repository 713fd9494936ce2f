"""Compiles each line's file: source, target and the name that tracebacks show, separated by NUL."""

import py_compile
import sys

MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH

with open(sys.argv[1], encoding="utf-8") as jobs:
    for job in jobs:
        source, target, name = job.rstrip("\n").split("\0")
        py_compile.compile(source, target, name, doraise=True, optimize=0, invalidation_mode=MODE)
