"""`dbsp live`: read changes from standard input and print the deltas of each tick."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dbsp.cli import options
from dbsp.errors import ArgumentError, DbspError

if TYPE_CHECKING:
    from dbsp.cli.program_reload import LiveProgram

EXAMPLES = """Examples:

dbsp live reach.dl
    type changes, then commit; query rows and print proofs; 'help' lists the commands

dbsp live reach.dl -F facts --initial < changes.txt > deltas.txt

dbsp live reach.dl --checkpoint state
    continues where it ended, with the rules that were entered

tail -f changes.log | dbsp live reach.dl | ./consumer"""


def live(
    program: options.ProgramPath,
    *,
    fact_dir: options.FirstFacts = None,
    initial: Annotated[
        bool, typer.Option("--initial", help="Print the results of the loaded facts as the first tick.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the program when its file has changed.")
    ] = False,
    checkpoint: options.CheckpointFolder = None,
    keep: options.Keep = None,
    allow_pickle: options.AllowPickle = False,
    compilation: options.Compilation,
    time: options.Timing = False,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    max_unpacked: options.MaxUnpacked = None,
) -> None:
    """Keep the results of a program up to date with changes from standard input.

    Reads a change script from standard input, line by line. Each commit applies the changes since
    the previous commit as one tick and prints the changes of the results as a change script that
    ends with commit. A tick with an error changes nothing.

    Lines can also add and drop rules, watch queries, and undo ticks. The line 'update' compiles the
    program again and continues with it: rules that are the same keep their state. With --watch this
    happens before a line if a file of the program has changed.

    With --checkpoint, the program continues after the last tick when it is started again, with the
    rules and the watched queries that lines have added. If its file has changed meanwhile, the
    first tick is the update to it.

    At a terminal, shows a prompt with history and completion and accepts more commands: proofs of
    rows, drawings. 'help' lists them.
    """
    if checkpoint is None and (keep is not None or allow_pickle):
        option = "--keep" if keep is not None else "--allow-pickle"
        raise options.invalid_option(f"expected --checkpoint with {option}")
    from dbsp.cli import program_files
    from dbsp.cli.program_reload import LiveProgram

    compiled = program_files.load_program(program, compilation)
    console = "<console>" if sys.stdin.isatty() else "<stdin>"
    if checkpoint is None:
        run = program_files.start(compiled, fact_dir, max_iterations, memory_limit, changes_from_stdin=True)
        _talk(LiveProgram(compiled, run, compilation, watched=watch, console=console), initial, time)
        return
    from dbsp.cli.live_start import start_in_checkpoint
    from dbsp.durable.store import Store

    store = Store(checkpoint, keep=_kept(keep), allow_pickle=allow_pickle)
    try:
        source = start_in_checkpoint(
            compiled,
            compilation,
            store,
            lambda stored: program_files.start(
                stored, fact_dir, max_iterations, memory_limit, changes_from_stdin=True, checkpoint=store
            ),
            watched=watch,
            console=console,
        )
        _talk(source, initial, time)
    finally:
        store.close()


def _kept(keep: str | None) -> int | str | None:
    """Return the value of --keep as `Store` takes it."""
    from dbsp.durable.history_window import HistoryWindow

    kept = int(keep) if keep is not None and keep.isdecimal() and len(keep) <= 18 else keep
    try:
        if kept is not None:
            HistoryWindow.of(kept, "--keep")
    except ArgumentError as error:
        raise options.invalid_option(error.message) from None
    return kept


def _talk(source: LiveProgram, initial: bool, timed: bool) -> None:
    """Run the commands of standard input until it ends."""
    from dbsp.cli.console import report
    from dbsp.cli.conversation import Conversation, print_deltas, show_initial
    from dbsp.cli.standard_input import stdin_lines

    if initial:
        show_initial(source.program, source.run)
    if sys.stdin.isatty():
        from dbsp.cli.commands import ConsoleCommands
        from dbsp.cli.prompt import converse

        commands = ConsoleCommands(source.program, source.run, source=source)
        try:
            commands.begin()
        except DbspError as error:  # the program of the checkpoint continues
            report(error)
        converse(commands)
        return
    conversation = Conversation(
        source.program,
        source.run,
        lambda result: print_deltas(conversation.program, result, timed=timed),
        source,
    )
    conversation.follow(stdin_lines())
    if conversation.failed:
        raise typer.Exit(1)
