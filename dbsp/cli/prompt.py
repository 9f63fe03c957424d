"""The prompt of `dbsp live` at a terminal: history, completion, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output, create_output

from dbsp.cli.commands import ConsoleCommands, QuitConsole
from dbsp.cli.completion import STYLE, LiveCompleter, LiveLexer
from dbsp.cli.console import remark, report
from dbsp.errors import DbspError, counted


def converse(
    commands: ConsoleCommands,
    *,
    input: Input | None = None,
    output: Output | None = None,
    history: History | None = None,
) -> None:
    """Read lines and run their commands until the user quits.

    Ctrl-C discards the line or interrupts the running command: an interrupted tick changes nothing.
    """
    session: PromptSession[str] = PromptSession(
        completer=LiveCompleter(commands),
        complete_while_typing=False,
        enable_history_search=True,
        history=history or _history(),
        input=input,
        lexer=LiveLexer(commands),
        output=output or create_output(always_prefer_tty=True),
        style=STYLE,
    )
    remark(f"{commands.program!r}; 'help' lists the commands")
    while True:
        try:
            line = session.prompt(_prompt(commands))
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        before = commands.run.tick
        try:
            commands.handle(line)
        except QuitConsole:
            break
        except DbspError as error:
            report(error)
        except KeyboardInterrupt:
            committed = commands.run.tick - before
            ticks = "nothing changed" if not committed else f"{counted(committed, 'tick')} committed"
            remark(f"interrupted; {ticks}")
    if commands.pending:
        remark("the pending changes were not committed")


def _prompt(commands: ConsoleCommands) -> str:
    """Return the prompt, with the number of pending changes."""
    number = len(commands.pending)
    return f"{number} pending dbsp> " if number else "dbsp> "


def _history() -> History:
    """Return the lines of earlier sessions, stored in the user's XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = (Path(state) if state else Path.home() / ".local" / "state") / "dbsp"
    file = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.open("a").close()
    except OSError:
        return InMemoryHistory()  # a read-only home is not an error
    return FileHistory(file)
