"""`dbsp live`: read changes from standard input and print the deltas of each tick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp live reach.dl
    type changes, then commit; query rows and print proofs; 'help' lists the commands

dbsp live reach.dl -F facts --initial < changes.txt > deltas.txt

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

    At a terminal, shows a prompt with history and completion and accepts more commands: proofs of
    rows, drawings. 'help' lists them.
    """
    from dbsp.cli import program_files
    from dbsp.cli.conversation import Conversation, print_deltas, show_initial, stdin_lines
    from dbsp.cli.program_reload import LiveProgram

    compiled = program_files.load_program(program, compilation)
    run = program_files.start(compiled, fact_dir, max_iterations, memory_limit, changes_from_stdin=True)
    if initial:
        show_initial(compiled, run)
    prompted = sys.stdin.isatty()
    console = "<console>" if prompted else "<stdin>"
    source = LiveProgram(compiled, run, compilation, watched=watch, console=console)
    if prompted:
        from dbsp.cli.commands import ConsoleCommands
        from dbsp.cli.prompt import converse

        converse(ConsoleCommands(compiled, run, source=source))
        return
    conversation = Conversation(
        compiled, run, lambda result: print_deltas(conversation.program, result, timed=time), source
    )
    conversation.follow(stdin_lines())
    if conversation.failed:
        raise typer.Exit(1)
