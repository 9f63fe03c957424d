"""What to do instead of those options of Soufflé's command line that have no meaning here."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

_PRAGMA = "write it into the program: .pragma"
_FUNCTORS = "user-defined functors are Python functions, which --functors names"
_COMPILED = "programs are not compiled to C++; leave the option out"
_PROFILED = "--time says how long each tick took, 'dbsp explain' how rules are evaluated"
_SCHEDULED = "joins are planned by counting the rows that are there; see --strategy"
_SHOWN = "'dbsp explain' and 'dbsp graph' show what a program becomes"

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
    "--inline-exclude": "write 'no_inline' behind the declaration of the relation",
    "--legacy": "old forms are understood without it",
    "--libraries": _FUNCTORS,
    "-l": _FUNCTORS,
    "--library-dir": _FUNCTORS,
    "-L": _FUNCTORS,
    "--live-profile": _PROFILED,
    "--magic-transform-exclude": "write 'no_magic' behind the declaration of the relation",
    "--parse-errors": "'dbsp check' shows all errors of a program",
    "--pragma": f'{_PRAGMA} "key" "value"',
    "-P": f'{_PRAGMA} "key" "value"',
    "--preprocessor": "the preprocessor is built in; -M defines macros, -I names folders",
    "--profile": _PROFILED,
    "-p": _PROFILED,
    "--profile-frequency": _PROFILED,
    "--provenance": "'dbsp live' answers questions about a result while the program runs",
    "-t": "'dbsp live' answers questions about a result while the program runs",
    "--show": _SHOWN,
    "--swig": "from Python a program is compiled by dbsp.compile(path) and run by .start()",
    "-s": "from Python a program is compiled by dbsp.compile(path) and run by .start()",
    "--verbose": _PROFILED,
    "-v": _PROFILED,
    "--warn": "all warnings are shown; -w shows none",
    "-W": "all warnings are shown; -w shows none",
    "--wno": "-w shows no warnings at all",
}


class Command(TyperCommand):
    """A command that says of options which only Soufflé has what is to be done instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for argument in args:
            if argument == "--":
                break
            name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
            if name not in known and name in INSTEAD:
                raise typer.BadParameter(f"Soufflé's option {name} is not known here: {INSTEAD[name]}", ctx)
        return super().parse_args(ctx, args)
