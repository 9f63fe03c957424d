"""`dbsp check`: compile a program, and compare its circuits on random changes."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp check reach.dl && echo fine
    compiles the program and prints its errors

dbsp check reach.dl --ticks 200 --seed 7"""


def check(
    program: options.ProgramPath,
    *,
    ticks: Annotated[
        int, typer.Option("--ticks", min=0, metavar="N", help="Number of random ticks to run.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random changes.")] = 0,
    values: Annotated[
        int, typer.Option("--values", min=1, metavar="N", help="Number of different values per column.")
    ] = 4,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="Also print which law made which operator incremental."),
    ] = False,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 1_000,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Compile a program without running it; with --ticks, compare its circuits.

    Prints all errors of the program; the exit code is 1 if there is one. With --ticks, the query
    circuit runs between an integral at every input and a difference at every output, which
    recomputes everything. The incremental, the physical and the distributed circuit must return
    the same deltas and views in every tick; the distributed circuit runs on one shard.
    """
    from dbsp.cli import program_files
    from dbsp.operators.stages.circuit_stages import incremental_circuit

    compiled = program_files.load_program(program, compilation)
    if rules:
        for application in incremental_circuit(compiled.circuit())[1]:
            print(application)
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
        f"{program.name}: the query, incremental, physical and distributed circuits agree "
        f"in {ticks} ticks ({rows} rows of deltas)"
    )
