"""`dbsp explain`: how a program will be evaluated, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp explain reach.dl

dbsp explain reach.dl --circuit

dbsp explain reach.dl --after push_filters
    prints the circuit right after this pass of the compiler

dbsp explain --passes
    lists the passes

dbsp explain reach.dl -F facts
    plans for these facts, loads them, and says what the joins have met"""


def _list_passes(wanted: bool) -> None:
    """Print every pass with what it does, and end the command."""
    if not wanted:
        return
    from dbsp.compiler.datalog.compiler_passes import COMPILER

    width = max(len(one.name) for one in COMPILER)
    given = None
    for one in COMPILER:
        if one.gives is not given:
            given = one.gives
            print(f"-> {given.name}")
        print(f"   {one.name:<{width}}  {one.summary}")
    raise typer.Exit


def _known_pass(name: str | None) -> str | None:
    if name is not None:
        from dbsp.compiler.datalog.compiler_passes import COMPILER

        try:
            COMPILER[name]
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return name


def explain(
    program: options.ProgramPath,
    *,
    circuit: Annotated[
        bool,
        typer.Option(
            "--circuit", help="Also what the optimiser changed, the rules applied, and the traces kept."
        ),
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="PASS",
            help="Print the program, its plans or its circuit right after this pass of the compiler.",
            callback=_known_pass,
            show_default=False,
        ),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option(
            "--passes",
            help="List the passes of the compiler in their order.",
            callback=_list_passes,
            is_eager=True,
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

    With --after the report is the program as text after one pass, its plans, or its circuit node by node.
    """
    from dbsp.cli import program_files

    compiled = program_files.load_program(program, compilation)
    if fact_dir is None:
        run, plans = None, compiled.plans
    else:
        run, plans = program_files.start_counted(compiled, fact_dir, max_iterations)
    print(compiled.explain(run, plans, after=after))
    if circuit:
        from dbsp.operators.stages.stage_report import explain as explain_circuit

        print()
        print(explain_circuit(compiled.circuit_for(plans)))
