"""A process that is not a child of this one: its template reports its end through a pipe.

The pipe has two writers, the template and the process itself. So it ends without a report if both
have ended, the template first.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
from contextlib import suppress

from dbsp.deferred_signals import call_undisturbed, poll_interruptibly

_STATUS = struct.Struct("<q")

UNKNOWN_STATUS = 1 << 16
"""The return code of a process whose template has ended before it."""


def report_end(status: int, returncode: int) -> None:
    """Write the end of a process to its pipe, and close the pipe."""
    with suppress(BrokenPipeError):  # the coordinator may have ended, or forgotten the process
        os.write(status, _STATUS.pack(returncode))
    os.close(status)


def describe_return_code(returncode: int) -> str:
    """Return how a process has ended, for an error."""
    if returncode == UNKNOWN_STATUS:
        return "exit status unknown, since the process that started it has ended before"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


class ForkedProcess:
    """The part of `subprocess.Popen` that a coordinator needs, with the same meaning."""

    def __init__(self, pid: int, status: int) -> None:
        """`status` is the end of the pipe for reading; it is closed when the process has ended."""
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the return code, the negative number of a signal, or None while it runs."""
        return self.returncode if self.returncode is not None else self._wait_until(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises `subprocess.TimeoutExpired` after so many seconds."""
        if self.returncode is not None:
            return self.returncode
        returncode = self._wait_until(None if timeout is None else timeout * 1000)
        if returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may have ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def _wait_until(self, milliseconds: float | None) -> int | None:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if poll_interruptibly(poll, milliseconds):
            call_undisturbed(self._receive)
        return self.returncode

    def _receive(self) -> None:
        report = os.read(self._status, _STATUS.size)
        self.returncode = _STATUS.unpack(report)[0] if report else UNKNOWN_STATUS
        os.close(self._status)
