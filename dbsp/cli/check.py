"""`dbsp check`: whether the query and the circuits made of it agree, on random changes."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import options
from dbsp.compiler.planner.strategy import Strategy

EXAMPLES = """Example:

dbsp check reach.dl --ticks 200 --seed 7"""


def check(
    program: options.ProgramPath,
    ticks: Annotated[int, typer.Option("--ticks", min=1, metavar="N", help="How many ticks to try.")] = 50,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The beginning of the random changes.")
    ] = 0,
    values: Annotated[
        int, typer.Option("--values", min=1, metavar="N", help="How many different values a column takes.")
    ] = 4,
    rules: Annotated[
        bool, typer.Option("--rules", help="Also print which rule of the calculus was applied where.")
    ] = False,
    macros: options.Macros = None,
    include: options.IncludeFolders = None,
    strategy: options.JoinStrategy = Strategy.AUTO,
    disabled: options.Disabled = None,
    max_iterations: options.MaxIterations = 1_000,
) -> None:
    """Compile a program and check its three circuits against each other.

    The query runs between an integral at every input and a difference at every output, which
    recomputes everything; the incremental and the physical circuit must give the same deltas and
    views in every tick.
    """
    from dbsp.agreement import check_agreement
    from dbsp.cli import session
    from dbsp.operators.stages import incrementalize

    compiled = session.load_program(program, strategy, macros, include, disabled)
    if rules:
        for firing in incrementalize(compiled.circuit())[1]:
            print(firing)
    rows = check_agreement(
        lambda stage: compiled.start(max_iterations=max_iterations, stage=stage),
        ticks,
        seed=seed,
        values=values,
    )
    print(
        f"{program.name}: the query, the incremental and the physical circuit agree "
        f"in {ticks} ticks ({rows} rows of deltas)"
    )
