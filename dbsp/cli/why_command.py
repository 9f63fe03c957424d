"""`dbsp why`: why a row is there, or why it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp why reach.dl -F facts 'path(1, 3)'
    a proof of the row, as a tree

dbsp why reach.dl -F facts 'path(1, _)' --rows 3
    proofs of three rows, those with the smallest first

dbsp why reach.dl -F facts 'path(3, 1)' --not
    how far each rule gets

dbsp why reach.dl -F facts 'path(1, 3)' --dot | dot -Tsvg > proof.svg"""


def why(
    program: options.ProgramPath,
    goal: Annotated[
        str,
        typer.Argument(
            metavar="'ROW'",
            help='A row as in the program: path(1, "text"); variables and _ stand for any value.',
            show_default=False,
        ),
    ],
    *,
    fact_dir: options.FactFolder = Path("."),
    negated: Annotated[bool, typer.Option("--not", help="Say why no row fits.")] = False,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            min=1,
            metavar="N",
            help="How many rules deep: by default 12, with --not 1.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, metavar="N", help="At most so many rows.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one line for each row.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a drawing in the DOT language.")] = False,
    deltas: Annotated[
        Path | None,
        typer.Option("--deltas", metavar="FILE", help="Apply a change script first.", show_default=False),
    ] = None,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Say why a row is in a relation, or with --not why it is not.

    The proof has the smallest height there is: the fewest rules on the longest way from the row to rows
    that were put in. With --not, the matches of each rule that satisfy as much of it as can be, and what
    they lack.
    """
    from dbsp.cli import program_files, why_answers

    if json and dot:
        raise typer.BadParameter("--json and --dot exclude each other")
    if dot and negated:
        raise typer.BadParameter("--dot draws proofs, and --not has none")
    compiled = program_files.load_program(program, compilation)
    ticks = [] if deltas is None else program_files.read_changes(compiled, deltas)
    run = program_files.start(compiled, fact_dir, max_iterations)
    for tick in ticks:
        program_files.apply_tick(run, tick, str(deltas))
    form = why_answers.Form.JSON if json else why_answers.Form.DOT if dot else why_answers.Form.TEXT
    with why_answers.state_of(compiled, run) as state:
        if negated:
            why_answers.print_refusal(state, goal, depth or 1, form)
        else:
            why_answers.print_proofs(state, goal, rows, depth or why_answers.DEPTH, form)
