"""The prompt of `dbsp live` at a terminal."""

from __future__ import annotations

from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from dbsp.cli.commands import ConsoleCommands
from dbsp.cli.completion import LiveCompleter, LiveLexer
from dbsp.cli.prompt_session import hold, stored_history


class LiveConsole:
    """The commands of `dbsp live` as a console: an interrupted tick changes nothing."""

    step_name = "tick"

    def __init__(self, commands: ConsoleCommands) -> None:
        self._commands = commands

    @property
    def greeting(self) -> str:
        return f"{self._commands.program!r}; 'help' lists the commands"

    @property
    def prompt(self) -> str:
        if self._commands.in_entry:
            return "  ... "
        number = len(self._commands.pending)
        return f"{number} pending dbsp> " if number else "dbsp> "

    @property
    def steps(self) -> int:
        return self._commands.run.tick

    def handle(self, line: str) -> None:
        self._commands.handle(line)

    def discard(self) -> None:
        self._commands.discard()

    def farewell(self) -> str | None:
        if self._commands.in_entry:
            return "the last rule was not complete, and the program is unchanged"
        return "the pending changes were not committed" if self._commands.pending else None


def converse(
    commands: ConsoleCommands,
    *,
    input: Input | None = None,
    output: Output | None = None,
    history: History | None = None,
) -> None:
    """Read lines and run their commands until the user quits."""
    hold(
        LiveConsole(commands),
        LiveCompleter(commands),
        LiveLexer(commands),
        history=history or stored_history("history"),
        input=input,
        output=output,
    )
