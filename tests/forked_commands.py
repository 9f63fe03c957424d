"""Run the commands of a page in forks of one process that has imported dbsp.

    bash                   a command in a folder                 the server
    $ dbsp run a.dl   ->   passes its arguments, directory,  ->  forks: the new process has them,
                           environment and open files            and runs the command

An import takes most of the time of a command, and the pages run hundreds. A fork is a process like
any other: only its imports are those of the server.
"""

from __future__ import annotations

import ast
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.quick_start import PYTHON

_ROOT = Path(__file__).resolve().parent.parent

_COMMAND = """#!{python} -IS
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = repr(({name!r}, sys.argv[1:], os.getcwd(), dict(os.environ))).encode()
    socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(request)
    answer = server.recv(1)
sys.exit(answer[0] if answer else "the process of the command ended")
"""


class ForkedCommands:
    """A server, and a folder with its commands."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        address = str(Path(self._folder.name, "server"))
        self.folder = Path(self._folder.name, "bin")
        self.folder.mkdir()
        for name in _RUNS:
            command = self.folder / name
            command.write_text(_COMMAND.format(python=sys.executable, address=address, name=name))
            command.chmod(0o700)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_commands", address],
            cwd=_ROOT,
            # A fork has none of the threads for linear algebra that NumPy would start.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        if not self._server.stdout.readline():
            raise RuntimeError("the server of the commands has not started")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()


def main(address: str) -> None:
    """Fork for each request, until this process is killed; return in the process of a command."""
    import dbsp.cli.program_files  # noqa: F401  # it imports the compiler and the engine
    from dbsp.cli.app import application

    application("")  # it imports the commands
    # A collection in a fork would write to each object, and so copy its page.
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        # The processes that wait for the commands leave nothing to wait for.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = listener.accept()
            if not os.fork():
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _serve(connection)


def _serve(connection: socket.socket) -> None:
    """Run a command in a child of this process, which sends its exit code."""
    length, files, *_ = socket.recv_fds(connection, 8, 3)
    request = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL).decode()
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(bytes([code if code >= 0 else 128 - code]))
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    name, arguments, directory, environment = ast.literal_eval(request)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    _RUNS[name]()


def _run_dbsp() -> None:
    from dbsp.cli import main

    main()


def _run_code() -> None:
    """Run the code after `-c`, as Python does."""
    _, _, code, *arguments = sys.argv
    sys.argv = ["-c", *arguments]
    sys.path[0] = ""
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


_RUNS: dict[str, Callable[[], None]] = {"dbsp": _run_dbsp, PYTHON: _run_code}

if __name__ == "__main__":
    main(sys.argv[1])
