"""The settings of a process that a forked shard can only have from its template.

A shard gets its environment, directory, streams and descriptors with the request for it. Other
settings have an effect earlier: the limits and identities of the system, and the variables that
the C library, Python and the imported packages read when they load. While these settings do not
change, a shard that is forked from the template is like one that starts with a new Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

InheritedSettings: TypeAlias = tuple[object, ...]
"""Equal values mean equal processes."""

_VARIABLES = (
    "ARROW_",
    "DBSP_KERNELS",
    "GFORTRAN_",
    "GLIBC_",
    "GOTO",
    "HOME",
    "JE_",
    "LANG",
    "LC_",
    "LD_",
    "LLVM",
    "MALLOC_",
    "MKL_",
    "NPY_",
    "NUMBA_",
    "NUMPY_",
    "NVPL_",
    "OMP_",
    "OPENBLAS_",
    "OPENSSL_",
    "PYTHON",
    "TZ",
    "XDG_",
    "_PYTHON",
)
"""How the names begin of the variables that are read when a process or a module loads."""

_STATUS = (
    "Cap",
    "Cpus_allowed",
    "Gid",
    "Groups",
    "Mems_allowed",
    "NoNewPrivs",
    "Seccomp",
    "SigBlk",
    "SigIgn",
    "THP_enabled",
    "Uid",
    "Umask",
)
"""How the lines begin in the status of a thread for what its children inherit."""


def is_read_at_load(variable: str) -> bool:
    """Return whether an environment variable has an effect before the request for a shard."""
    return variable.startswith(_VARIABLES)


def inherited_settings(environment: Mapping[str, str]) -> InheritedSettings:
    """Return the settings of a child of this thread on Linux, with this environment."""
    import resource  # Windows does not have it

    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    status = Path("/proc/thread-self/status").read_text().splitlines()
    return (
        sys.executable,
        tuple(sorted(item for item in environment.items() if is_read_at_load(item[0]))),
        tuple(line for line in status if line.startswith(_STATUS)),
        tuple(map(resource.getrlimit, limits)),
        os.getpriority(os.PRIO_PROCESS, 0),
        Path("/proc/self/oom_score_adj").read_text(),
        Path("/proc/self/cgroup").read_text(),
    )
