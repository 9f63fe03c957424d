"""`dbsp explain`: how a program will be evaluated, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp explain reach.dl

dbsp explain reach.dl --circuit

dbsp explain reach.dl -F facts
    plans for these facts, loads them, and says what the joins have met"""


def explain(
    program: options.ProgramPath,
    *,
    circuit: Annotated[
        bool,
        typer.Option(
            "--circuit", help="Also what the optimiser changed, the rules applied, and the traces kept."
        ),
    ] = False,
    fact_dir: Annotated[
        Path | None,
        typer.Option(
            "--fact-dir",
            "-F",
            metavar="DIR",
            help="Load RELATION.facts from there; plans and prints by what is counted and met.",
            show_default=False,
        ),
    ] = None,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    compilation: options.Compilation,
) -> None:
    """Say how a program is evaluated: its strata, the order of work in each rule, its recursion.

    Of every join: whether it is acyclic, how many rows it has at most, by which joins it is made and why,
    and in which order the changes of each atom bind the variables; and the traces kept, for whom.

    With facts the plans are those that are best by their counts. The facts are loaded, and the rows expected
    are set against those met, variable by variable; traces come with their rows and bytes.
    """
    from dbsp.cli import program_files

    compiled = program_files.load_program(program, compilation)
    if fact_dir is None:
        plans = compiled.plans
        print(compiled.explain())
    else:
        run, plans = program_files.start_counted(compiled, fact_dir, max_iterations)
        print(compiled.explain(run, plans))
    if circuit:
        from dbsp.operators.stages.stage_report import explain as explain_circuit

        print()
        print(explain_circuit(compiled.circuit_for(plans)))
