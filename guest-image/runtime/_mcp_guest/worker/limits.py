"""Limits that the worker sets itself, because engines may not: rootless podman drops the one on
open files."""

import resource

__all__ = ["confine"]


def confine(open_files: int) -> None:
    """Lowers the hard limits of this process and its children, which no guest is privileged to
    raise again."""
    for kind, most in ((resource.RLIMIT_NOFILE, open_files), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(kind, (most, most))
