"""The template of shards: a process that has imported what a shard needs, and forks shards.

A fork takes some milliseconds, and the modules a quarter of a second. The fork shares the memory of
the modules with the template until one of them writes to it.

The template has one thread when it forks. The threads of OpenBLAS, which numpy loads, end before
every fork by a handler of that library. The template runs nothing of the user, so a shard imports
the user's modules as they are at its own start.

The template ends when its coordinator has closed the socket for requests, which is its standard
input, and its shards have ended.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
from types import FrameType

from dbsp.shards import shard_process
from dbsp.shards.abortable_link import ABORT_SIGNAL
from dbsp.shards.fork_request import (
    READY,
    ForkRequest,
    ShardDescriptors,
    receive_request,
    send_answer,
)
from dbsp.shards.forked_process import report_end


def main() -> None:
    """Fork shards until the coordinator ends. Returns in each shard, after its end."""
    # A shard takes the signal from its own start on; before, it must not end the process.
    signal.signal(ABORT_SIGNAL, signal.SIG_IGN)
    shard = _Template(socket.socket(fileno=0)).serve()
    shard_process.main(*shard.arguments)


class _Template:
    """The shards that have not ended, and how the template notices requests and ends."""

    def __init__(self, coordinator: socket.socket) -> None:
        self._coordinator = coordinator
        self._open = True
        """Whether the coordinator may send a request."""
        self._statuses: dict[int, int] = {}
        """The pipes for the ends of shards, by process."""
        # The signal of an ended child writes a byte to this pipe.
        self._ends, self._ended = os.pipe()
        os.set_blocking(self._ends, False)
        os.set_blocking(self._ended, False)
        self._before = signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._ended)

    def serve(self) -> ShardDescriptors:
        """Return in the process of a new shard. The template itself ends here."""
        self._freeze()
        self._coordinator.sendall(READY)
        while self._open or self._statuses:
            poll = select.poll()
            poll.register(self._ends, select.POLLIN)
            if self._open:
                poll.register(self._coordinator, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._ends in ready:
                os.read(self._ends, select.PIPE_BUF)
                self._report_ends()
            if self._coordinator.fileno() in ready:
                shard = self._answer_request()
                if shard is not None:
                    return shard
        os._exit(0)

    def _freeze(self) -> None:
        """Exclude all objects from garbage collections, which write to the memory of objects."""
        gc.collect()
        gc.freeze()

    def _report_ends(self) -> None:
        while self._statuses:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            report_end(self._statuses.pop(process), os.waitstatus_to_exitcode(status))

    def _answer_request(self) -> ShardDescriptors | None:
        """Fork a shard. Return its descriptors in the new process, and None in the template."""
        try:
            received = receive_request(self._coordinator)
        except OSError as error:
            send_answer(self._coordinator, 0, error.errno or 0)
            return None
        if received is None:
            self._open = False
            return None
        request, descriptors = received
        status = descriptors[0]
        missing = [name for name in request.modules if name not in sys.modules]
        if missing:
            for name in missing:
                importlib.import_module(name)
            self._freeze()
        try:
            process = os.fork()
        except OSError as error:
            os.close(status)
            send_answer(self._coordinator, 0, error.errno or 0)
        else:
            if process == 0:
                self._leave()
                return _become_shard(request, descriptors[1:])
            self._statuses[process] = status
            send_answer(self._coordinator, process, 0)
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        return None

    def _leave(self) -> None:
        """Release everything of the template in the process of a shard."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self._before)
        self._coordinator.detach()  # `_become_shard` replaces the standard input
        for descriptor in (self._ends, self._ended, *self._statuses.values()):
            os.close(descriptor)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal, so that it writes to the pipe."""


def _become_shard(request: ForkRequest, descriptors: list[int]) -> ShardDescriptors:
    """Take over from the coordinator what a process inherits at its start."""
    folder, output, errors, *of_shard = descriptors
    os.setsid()
    os.fchdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, stream)
    for descriptor in (folder, nothing, output, errors):
        os.close(descriptor)
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.write_through:
        sys.stdout.reconfigure(line_buffering=os.isatty(1))
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[:] = request.path
    importlib.invalidate_caches()
    if random := sys.modules.get("numpy.random"):
        random.seed()  # the module `random` does so itself
    return request.shard.renumbered(of_shard)
