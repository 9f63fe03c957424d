"""Refuse a command line without a command, and say which command reads a program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """The commands of `dbsp`; `dbsp reach.dl` names the command that is missing."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and (name.endswith(".dl") or Path(name).is_file()):
            written = shlex.join(args)
            message = f"expected a command, got the program '{name}'; write: dbsp run {written}"
            ctx.fail(f"{message} [invalid-option]")
        return super().resolve_command(ctx, args)
