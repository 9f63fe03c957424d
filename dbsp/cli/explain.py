"""`dbsp explain`: how a program will be evaluated, in words."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import options
from dbsp.compiler.planner.strategy import Strategy

EXAMPLES = """Examples:

dbsp explain reach.dl

dbsp explain reach.dl --circuit"""


def explain(
    program: options.ProgramPath,
    circuit: Annotated[
        bool,
        typer.Option(
            "--circuit", help="Also what the optimiser changed, the rules applied, and the traces kept."
        ),
    ] = False,
    strategy: options.JoinStrategy = Strategy.AUTO,
) -> None:
    """Say how a program is evaluated: its strata, the order of work in each rule, its recursion."""
    from dbsp.cli import session

    compiled = session.load_program(program, strategy)
    print(compiled.explain().rstrip("\n"))
    if circuit:
        from dbsp.operators.explain import explain as explain_circuit

        print()
        print(explain_circuit(compiled.circuit()))
