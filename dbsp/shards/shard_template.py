"""Start the process of a shard: by a fork of the template, which this process starts once.

The template is started for the first shard and ends with this process. Another one takes its place
if it has ended, or if this process has changed a setting that only a new process can take over (see
`inherited_settings`). The shards of the earlier template are not affected.

On other systems than Linux, each shard starts with a new Python: on macOS, libraries of the system
may fail after a fork.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TypeAlias

from dbsp.deferred_signals import call_undisturbed, poll_interruptibly
from dbsp.errors import ShardError, expect_present
from dbsp.shards.fork_request import (
    READY,
    ForkRequest,
    ShardDescriptors,
    TemplateEndedError,
    receive_answer,
    send_request,
)
from dbsp.shards.forked_process import ForkedProcess, describe_return_code
from dbsp.shards.inherited_settings import InheritedSettings, inherited_settings

FORKS = sys.platform == "linux"
"""Whether shards are forked from a template."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from dbsp.shards.{module} import main; main(*{arguments!r})"
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""The environment of a shard, where the caller's does not have it: limits of glibc, in bytes.

A shard keeps up to 256 MiB of freed memory, and blocks of up to 32 MiB come from there. With the
limits of glibc a large tick returns its memory to the system and needs new pages in the next: a
tenth of the time of a recursion.
"""
_PATIENCE = 5.0
"""Seconds in which a template that has closed its connection must end."""
_FOLLOWED = ("dbsp.kernels.code_loader",)
"""Modules that the template imports when this process has imported them: its shards need them, too.

That of compiled kernels takes 50 ms, and a run of small ticks never imports it.
"""


ShardProcess: TypeAlias = ForkedProcess | subprocess.Popen[bytes]
"""The process of a shard, forked or with a new Python."""


def start_shard(shard: ShardDescriptors, modules: Sequence[str]) -> ShardProcess:
    """Start the process of a shard; the descriptors stay open here.

    `modules` of dbsp are imported before a fork. Raises OSError, or ShardError if the template has
    ended. Call it after `prepare_shards`, with signals deferred.
    """
    if FORKS:
        return _templates.fork(shard, modules)
    return _start_python("shard_process", shard.arguments, subprocess.DEVNULL, None, shard.numbers)


def prepare_shards() -> None:
    """Wait until shards can be started, at most for the imports of the template.

    An interrupt may end the wait. Raises ShardError if the template cannot start.
    """
    if FORKS:
        _templates.ready()


def _environment() -> dict[str, str]:
    return _MEMORY | os.environ


def _path() -> list[str]:
    return [entry or os.getcwd() for entry in sys.path]


def _start_python(
    module: str,
    arguments: Sequence[object],
    stdin: int,
    stdout: int | None,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Run `main` of a module of this package in a new process."""
    program = _PROGRAM.format(path=_path(), module=module, arguments=tuple(arguments))
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=stdin,
        stdout=stdout,
        stderr=None if _is_inherited(2) else subprocess.DEVNULL,
        env=_environment(),
        pass_fds=descriptors,
        start_new_session=True,  # a terminal sends Ctrl-C to the coordinator only
    )


class _Template:
    """A process that forks shards, from the side of its coordinator."""

    def __init__(self, settings: InheritedSettings) -> None:
        self._settings = settings
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = _start_python("template_process", (), theirs.fileno(), subprocess.DEVNULL)
        self._ready = False

    def fits(self, settings: InheritedSettings) -> bool:
        """Return whether it has these settings, and lives."""
        return self._settings == settings and self._requests.fileno() >= 0 and not self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait until it has imported its modules. Raises ShardError if it ends before."""
        if not self._ready:
            poll = select.poll()
            poll.register(self._requests, select.POLLIN)
            poll_interruptibly(poll)
            call_undisturbed(self._receive_ready)

    def _receive_ready(self) -> None:
        with suppress(ConnectionError):
            self._ready = self._requests.recv(1) == READY
        if not self._ready:
            raise self._ended("it may have written the reason to the standard error")

    def fork(self, shard: ShardDescriptors, modules: Sequence[str]) -> ForkedProcess:
        """Fork a shard. Raises OSError of the fork, and ShardError if the template has ended."""
        request = ForkRequest(
            environment=_environment(),
            path=_path(),
            modules=[*modules, *(name for name in _FOLLOWED if name in sys.modules)],
            shard=shard,
        )
        with ExitStack() as opened:
            status, reported = os.pipe()
            opened.callback(os.close, reported)
            streams = []
            for stream in (1, 2):
                if not _is_inherited(stream):
                    stream = os.open(os.devnull, os.O_WRONLY)
                    opened.callback(os.close, stream)
                streams.append(stream)
            folder = os.open(".", os.O_PATH)
            opened.callback(os.close, folder)
            try:
                send_request(self._requests, request, [reported, folder, *streams, *shard.numbers])
                process, error = receive_answer(self._requests)
            except BaseException as failure:
                os.close(status)
                self.retire()  # another request could meet the answer to this one
                if isinstance(failure, ConnectionError | TemplateEndedError):
                    raise self._ended("start the run again") from None
                raise
            if error:
                os.close(status)
                raise OSError(error, os.strerror(error))
            return ForkedProcess(process, status)

    def _ended(self, advice: str) -> ShardError:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self.retire()
        return ShardError(
            "the process that starts the shards has ended "
            f"({describe_return_code(self._process.returncode)}); {advice}",
            code="shard-lost",
        )

    def retire(self) -> None:
        """Start no more shards. The process ends after those that it has started."""
        self._requests.close()

    def kill(self) -> None:
        """End the process, but not its shards."""
        self._requests.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Release the template in a process that was forked from its coordinator."""
        self._requests.close()
        self._process.returncode = 0  # a parent's child, for which this process cannot wait


def _is_inherited(descriptor: int) -> bool:
    """Return whether a new process gets a standard stream: it is open, and no file of this process.

    If the stream is closed, its number may be that of a socket, which Python does not pass on.
    """
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


class _Templates:
    """The template of this process, and the earlier ones whose shards have not ended."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._current: _Template | None = None
        self._retired: list[_Template] = []

    def ready(self) -> _Template:
        """Return the template for the current settings, when it has started. Raises ShardError."""
        settings = inherited_settings(_environment())
        with self._lock:
            self._retired = [template for template in self._retired if not template.has_ended]
            if self._current is not None and not self._current.fits(settings):
                self._current.retire()
                self._retired.append(self._current)
                self._current = None
            if self._current is None:
                call_undisturbed(self._start, settings)
            template = expect_present(self._current, "the template of the shards")
            template.wait()
            return template

    def _start(self, settings: InheritedSettings) -> None:
        self._current = _Template(settings)

    def fork(self, shard: ShardDescriptors, modules: Sequence[str]) -> ForkedProcess:
        """Fork a shard from the template, one at a time."""
        with self._lock:
            return self.ready().fork(shard, modules)

    def end(self) -> None:
        """End all templates with this process; their shards end by the end of their coordinator."""
        for template in self._take():
            template.kill()

    def forget(self) -> None:
        """Release all templates in a process that was forked from this one."""
        self._lock = threading.RLock()  # another thread may have held it
        for template in self._take():
            template.forget()

    def _take(self) -> list[_Template]:
        current, retired = self._current, self._retired
        self._current, self._retired = None, []
        return retired if current is None else [*retired, current]


_templates = _Templates()
if FORKS:
    atexit.register(_templates.end)
    os.register_at_fork(after_in_child=_templates.forget)
