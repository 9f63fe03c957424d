"""Refuse options that only Soufflé has, and say what to use instead."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

_PRAGMA = "write it into the program: .pragma"
_FUNCTORS = "functors are Python functions; name their file or module with --functors"
_COMPILED = "dbsp does not compile programs to C++; remove the option"
_PROFILED = "use --time for the duration of each tick, 'dbsp explain' for the plans of the rules"
_SCHEDULED = "the planner counts the rows of the facts; see --strategy"
_SHOWN = "use 'dbsp explain' and 'dbsp graph' to show the compiled program"
_PROVENANCE = "use 'dbsp why', or 'why' at the prompt of 'dbsp live'"
_FROM_PYTHON = "in Python, use dbsp.compile(path).start()"

INSTEAD = {
    "--auto-schedule": _SCHEDULED,
    "-a": _SCHEDULED,
    "--compile": _COMPILED,
    "-c": _COMPILED,
    "--compile-many": _COMPILED,
    "-C": _COMPILED,
    "--debug-report": _SHOWN,
    "-r": _SHOWN,
    "--dl-program": _COMPILED,
    "-o": _COMPILED,
    "--emit-statistics": _SCHEDULED,
    "--generate": _COMPILED,
    "-g": _COMPILED,
    "--generate-many": _COMPILED,
    "-G": _COMPILED,
    "--generate-namespace": _COMPILED,
    "-N": _COMPILED,
    "--inline-exclude": "write 'no_inline' after the declaration of the relation",
    "--libraries": _FUNCTORS,
    "-l": _FUNCTORS,
    "--library-dir": _FUNCTORS,
    "-L": _FUNCTORS,
    "--live-profile": _PROFILED,
    "--magic-transform-exclude": "write 'no_magic' after the declaration of the relation",
    "--parse-errors": "use 'dbsp check', which prints all errors of a program",
    "--pragma": f'{_PRAGMA} "key" "value"',
    "-P": f'{_PRAGMA} "key" "value"',
    "--preprocessor": "the preprocessor is built in; -M defines macros, -I adds folders",
    "--profile": _PROFILED,
    "-p": _PROFILED,
    "--profile-frequency": _PROFILED,
    "--provenance": _PROVENANCE,
    "-t": _PROVENANCE,
    "--show": _SHOWN,
    "--swig": _FROM_PYTHON,
    "-s": _FROM_PYTHON,
    "--verbose": _PROFILED,
    "-v": _PROFILED,
    "--warn": "all warnings are on by default; -w hides them",
    "-W": "all warnings are on by default; -w hides them",
    "--wno": "use -w to hide all warnings",
}


class Command(TyperCommand):
    """A command that names the replacement for an option that only Soufflé has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for argument in args:
            if argument == "--":
                break
            name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
            if name not in known and name in INSTEAD:
                raise typer.BadParameter(
                    f"Soufflé's option {name} is not supported: {INSTEAD[name]} [invalid-option]", ctx
                )
        return super().parse_args(ctx, args)
