"""`dbsp explain`: describe how a program is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options
from dbsp.errors import DbspError

EXAMPLES = """Examples:

dbsp explain reach.dl

dbsp explain reach.dl --circuit

dbsp explain reach.dl --after push_filters
    prints the rules after this pass of the compiler

dbsp explain --passes
    lists the passes

dbsp explain reach.dl -F facts
    plans for these facts, loads them, and prints estimated and actual row counts of the joins

dbsp explain reach.dl -F facts --analyze
    also prints the operators with the rows, the time and the memory of each"""


def _list_passes(requested: bool) -> None:
    """Print every pass with its summary, and end the command."""
    if not requested:
        return
    from dbsp.compiler.datalog.compiler_passes import COMPILER

    width = max(len(compiler_pass.name) for compiler_pass in COMPILER)
    representation = None
    for compiler_pass in COMPILER:
        if compiler_pass.gives is not representation:
            representation = compiler_pass.gives
            print(f"-> {representation.name}")
        print(f"   {compiler_pass.name:<{width}}  {compiler_pass.summary}")
    raise typer.Exit


def _known_pass(name: str | None) -> str | None:
    if name is not None:
        from dbsp.compiler.datalog.compiler_passes import COMPILER

        try:
            COMPILER[name]
        except ValueError as error:
            raise options.invalid_option(
                error.message if isinstance(error, DbspError) else str(error)
            ) from None
    return name


def explain(
    program: options.ProgramPath,
    *,
    circuit: Annotated[
        bool,
        typer.Option(
            "--circuit", help="Also print the optimiser's changes, the laws applied and the stored traces."
        ),
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="PASS",
            help="Print the program, its plans or its circuit after this pass of the compiler.",
            callback=_known_pass,
            show_default=False,
        ),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option(
            "--passes",
            help="List the passes of the compiler in order.",
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
            help="Load RELATION.facts from this folder; plan for these facts and print actual row counts.",
            show_default=False,
        ),
    ] = None,
    analyze: Annotated[
        bool,
        typer.Option(
            "--analyze",
            help="With --fact-dir, also print the operators as a tree, with what was measured of each.",
        ),
    ] = False,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
    max_unpacked: options.MaxUnpacked = None,
    compilation: options.Compilation,
) -> None:
    """Print how a program is evaluated: its strata, the steps of each rule, its recursion.

    For every join: whether it is acyclic, an upper bound of its rows, the joins that compute it and
    the reason, and the order in which the changes of each atom bind the variables. Then the stored
    traces and the rules that read them.

    With --fact-dir the plans are chosen by the row counts of the facts. The facts are loaded, and
    the report compares estimated and actual rows for each variable; traces are listed with rows and
    bytes.

    With --analyze, the report ends with the operators, from each output to the inputs: the rows
    that each emitted, its time, its steps (one per iteration in a recursion), and what it stores.

    With --after, prints the program as text after one pass, its plans, or its circuit node by node.
    """
    from dbsp.cli import program_files

    if analyze and (fact_dir is None or after is not None):
        raise options.invalid_option("--analyze needs --fact-dir, and no --after: it measures a run")
    compiled = program_files.load_program(program, compilation)
    if fact_dir is None:
        run, plans = None, compiled.plans
    else:
        run, plans = program_files.start_counted(compiled, fact_dir, max_iterations, observe=analyze)
    print(compiled.explain(run, plans, after=after, analyze=analyze))
    if circuit:
        from dbsp.operators.stages.stage_report import explain as explain_circuit

        print()
        print(explain_circuit(compiled.circuit_for(plans)))
