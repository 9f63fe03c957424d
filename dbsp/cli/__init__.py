"""The command line: `dbsp run`, `dbsp live`, `dbsp graph`, `dbsp explain`, `dbsp check`,
`dbsp warmup`.

Exit codes: 0 done, 1 something is wrong in the program or its data, 2 the command itself is wrong,
130 interrupted. Errors go to stderr, one message without a traceback.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command (of `sys.argv` if no arguments are given) and leave with its exit code."""
    from dbsp.cli.app import app
    from dbsp.cli.console import report, show_warning
    from dbsp.errors import DbspError
    from dbsp.runtime.memory import limited, memory_message

    try:
        with limited(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            app(args=None if arguments is None else list(arguments), prog_name="dbsp")
    except DbspError as error:
        report(error)
        sys.exit(1)
    except MemoryError:
        report(DbspError(memory_message()))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        # Standard output is gone, as in `dbsp run ... | head`, or the disk behind it is full: nothing more
        # may be written to it, not even when the interpreter closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            report(DbspError(f"cannot go on: {error.strerror}", where=error.filename))
        sys.exit(1)
