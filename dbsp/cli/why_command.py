"""`dbsp why`: print why a row is present, or why it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp why reach.dl -F facts 'path(1, 3)'
    prints a proof of the row, as a tree

dbsp why reach.dl -F facts 'path(1, _)' --rows 3
    prints proofs of three rows, smallest proofs first

dbsp why reach.dl -F facts 'path(3, 1)' --not
    prints how far each rule gets

dbsp why reach.dl -F facts --deltas day.delta --tick 'path(1, 3)'
    prints which changes of the last tick inserted or retracted the row

dbsp why reach.dl -F facts 'path(1, 3)' --dot | dot -Tsvg > proof.svg"""


def why(
    program: options.ProgramPath,
    goal: Annotated[
        str,
        typer.Argument(
            metavar="'ROW'",
            help='A row as in the program: path(1, "text"). Variables and _ match any value.',
            show_default=False,
        ),
    ],
    *,
    fact_dir: options.FactFolder = Path("."),
    negated: Annotated[bool, typer.Option("--not", help="Print why no row matches.")] = False,
    tick: Annotated[
        bool,
        typer.Option("--tick", help="Print why the last tick inserted or retracted the row."),
    ] = False,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            min=1,
            metavar="N",
            help="Depth in rules; default 12, with --not 1.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, metavar="N", help="Print proofs of at most N rows.")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per row.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a drawing in the DOT language.")] = False,
    deltas: Annotated[
        Path | None,
        typer.Option("--deltas", metavar="FILE", help="Apply this change script first.", show_default=False),
    ] = None,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
    max_unpacked: options.MaxUnpacked = None,
) -> None:
    """Print why a row is in a relation, or with --not why it is not.

    The proof has minimal height: the fewest rules on the longest path from the row to input rows.
    With --not, prints for each rule the matches that satisfy most of its body, and the parts that
    they miss. With --tick, prints the input changes that inserted or retracted the row in the last
    tick, the last one of --deltas.
    """
    from dbsp.cli import program_files, why_answers

    if json and dot:
        raise options.invalid_option("expected --json or --dot, got both")
    if dot and negated:
        raise options.invalid_option("expected --dot or --not, got both; --dot draws proofs only")
    if tick and (negated or dot):
        other = "--not" if negated else "--dot"
        raise options.invalid_option(f"expected --tick or {other}, got both")
    compiled = program_files.load_program(program, compilation)
    ticks = [] if deltas is None else program_files.read_changes(compiled, deltas)
    run = program_files.start(compiled, fact_dir, max_iterations)
    for changes in ticks:
        program_files.apply_tick(run, changes, str(deltas))
    form = why_answers.Form.JSON if json else why_answers.Form.DOT if dot else why_answers.Form.TEXT
    with why_answers.state_of(compiled, run) as state:
        if tick:
            why_answers.print_reasons(state, goal, rows, depth or why_answers.DEPTH, form)
        elif negated:
            hint = "remove --not to print its proof"
            why_answers.print_refusal(state, goal, depth or 1, hint, form)
        else:
            hint = "use --not to print why"
            why_answers.print_proofs(state, goal, rows, depth or why_answers.DEPTH, hint, form)
