"""Simulate on POSIX how Windows differs: import this module before any other."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from typing import Any

_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
_OS = (
    "fork",
    "forkpty",
    "getloadavg",
    "getpgid",
    "getuid",
    "geteuid",
    "killpg",
    "mkfifo",
    "setsid",
    "sysconf",
)
_SIGNALS = ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGWINCH", "alarm", "pause", "setitimer")


def _without_posix() -> None:
    """Remove POSIX modules, functions and signals; refuse open folders and read-only fsync."""
    import asyncio.unix_events  # noqa: F401  # uses what is removed; Windows has other event loops
    from fcntl import F_GETFL, fcntl

    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # makes the import fail
    for module, names in ((os, _OS), (signal, _SIGNALS)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)

    genuine_open, genuine_fsync = os.open, os.fsync

    def open_file(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        descriptor = genuine_open(path, flags, *args, **kwargs)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return descriptor

    def fsync(descriptor: int) -> None:
        if fcntl(descriptor, F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        genuine_fsync(descriptor)

    os.open = open_file
    os.fsync = fsync


_without_posix()
