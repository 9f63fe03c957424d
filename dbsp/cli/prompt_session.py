"""Conversations at a terminal: history, completion, Ctrl-C and Ctrl-D. Both prompts use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.styles import Style

from dbsp.cli.console import QuitConsole, remark, report
from dbsp.errors import DbspError, counted

STYLE = Style.from_dict(
    {
        "command": "bold",
        "relation": "ansicyan",
        "text": "ansigreen",
        "number": "ansimagenta",
        "remark": "ansibrightblack",
    }
)


class PromptConsole(Protocol):
    """What a conversation needs of a console.

    Attributes:
        step_name: what a line may commit: a tick or a transaction.
    """

    step_name: str

    @property
    def greeting(self) -> str:
        """The line above the first prompt."""

    @property
    def prompt(self) -> str:
        """The prompt, with the state of the console."""

    @property
    def steps(self) -> int:
        """The number of steps that were committed."""

    def handle(self, line: str) -> None:
        """Run the command of a line. Raises QuitConsole to end the conversation."""

    def discard(self) -> None:
        """Forget an entry that is not complete, after Ctrl-C. May raise DbspError to say so."""

    def farewell(self) -> str | None:
        """Return what the user loses by leaving, if anything."""


def hold(
    console: PromptConsole,
    completer: Completer,
    lexer: Lexer,
    *,
    history: History,
    input: Input | None = None,
    output: Output | None = None,
) -> None:
    """Read lines and run their commands until the user quits.

    Ctrl-C discards the line or interrupts the running command.
    """
    session: PromptSession[str] = PromptSession(
        completer=completer,
        complete_while_typing=False,
        enable_history_search=True,
        history=history,
        input=input,
        lexer=lexer,
        output=output or create_output(always_prefer_tty=True),
        style=STYLE,
    )
    remark(console.greeting)
    while True:
        try:
            line = session.prompt(console.prompt)
        except KeyboardInterrupt:
            try:
                console.discard()
            except DbspError as error:
                report(error)
            continue
        except EOFError:
            break
        before = console.steps
        try:
            console.handle(line)
        except QuitConsole:
            break
        except DbspError as error:
            report(error)
        except KeyboardInterrupt:
            committed = console.steps - before
            steps = (
                "nothing changed" if not committed else f"{counted(committed, console.step_name)} committed"
            )
            remark(f"interrupted; {steps}")
    farewell = console.farewell()
    if farewell is not None:
        remark(farewell)


def stored_history(name: str) -> History:
    """Return the lines of earlier sessions, stored in the user's XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = (Path(state) if state else Path.home() / ".local" / "state") / "dbsp"
    file = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.open("a").close()
    except OSError:
        return InMemoryHistory()  # a read-only home is not an error
    return FileHistory(file)
