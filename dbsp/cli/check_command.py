"""`dbsp check`: whether a program is right, and whether the circuits made of it agree on random changes."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp check reach.dl && echo fine
    only compiles the program

dbsp check reach.dl --ticks 200 --seed 7"""


def check(
    program: options.ProgramPath,
    *,
    ticks: Annotated[
        int, typer.Option("--ticks", min=0, metavar="N", help="How many random ticks to try.")
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The beginning of the random changes.")
    ] = 0,
    values: Annotated[
        int, typer.Option("--values", min=1, metavar="N", help="How many different values a column takes.")
    ] = 4,
    rules: Annotated[
        bool, typer.Option("--rules", help="Also print which rule of the calculus was applied where.")
    ] = False,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 1_000,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Compile a program without running it; with --ticks, check its three circuits against each other.

    All errors of the program are shown, and the exit code is 1 if there is one. With --ticks the query runs
    between an integral at every input and a difference at every output, which recomputes everything; the
    incremental and the physical circuit must give the same deltas and views in every tick.
    """
    from dbsp.cli import program_files
    from dbsp.operators.stages.three_stages import incremental_circuit

    compiled = program_files.load_program(program, compilation)
    if rules:
        for firing in incremental_circuit(compiled.circuit())[1]:
            print(firing)
    if not ticks:
        return
    from dbsp.runtime.agreement import check_agreement

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
