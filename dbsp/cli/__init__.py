"""The command line: `dbsp run`, `dbsp live`, `dbsp inspect`, `dbsp graph`, `dbsp explain`,
`dbsp check`, `dbsp warmup`.

Exit codes: 0 success, 1 an error in the program or its data, 2 an invalid command line,
130 interrupted. Errors go to stderr, one message without a traceback.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command (from `sys.argv` if no arguments are given) and exit with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        # The process is ours. Collecting cycles while modules load takes an eighth of a short run,
        # and as much the threads for linear algebra that NumPy starts; we compute none.
        gc.set_threshold(300_000, 20, 20)
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from dbsp.cli.app import application
    from dbsp.cli.console import open_missing_streams, report, show_warning
    from dbsp.errors import DbspError, MemoryLimitError
    from dbsp.runtime.memory import limited, memory_message

    open_missing_streams()
    try:
        with limited(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                application(words[0] if words else "")(args=words, prog_name="dbsp")
            finally:
                sys.stdout.flush()
    except DbspError as error:
        report(error)
        sys.exit(1)
    except MemoryError:
        report(MemoryLimitError(memory_message()))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        # Standard output is closed, as in `dbsp run ... | head`, or its disk is full. Write nothing
        # more to it, not even when the interpreter flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.filename is not None:
            message = f"cannot be read or written: {error.strerror}"
            report(DbspError(message, where=str(error.filename), code="unreadable-file"))
        elif not isinstance(error, BrokenPipeError):
            message = f"cannot write to standard output: {error.strerror}"
            report(DbspError(message, code="output-not-writable"))
        sys.exit(1)
