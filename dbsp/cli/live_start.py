"""Start the program of `dbsp live` in a checkpoint, or continue the one that the checkpoint has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dbsp.cli.console import remark
from dbsp.cli.options import Compilation
from dbsp.cli.program_draft import ProgramDraft
from dbsp.cli.program_reload import LiveProgram
from dbsp.cli.stored_program import StoredProgram, StoredPrograms
from dbsp.compiler.program import Program
from dbsp.durable.store import Store
from dbsp.errors import CheckpointError, CompileError
from dbsp.runtime.run import Run


def start_in_checkpoint(
    program: Program,
    compilation: Compilation,
    store: Store,
    start: Callable[[Program], Run],
    *,
    watched: bool,
    console: str,
) -> LiveProgram:
    """Return the live program of a checkpoint; it is `outdated` if the file has another text.

    Raises CheckpointError if the folder belongs to a program that `dbsp live` has no text of, or to
    one that the options of `program` do not compile.
    """
    texts, is_new = StoredPrograms(store.folder), store.query is None
    try:
        stored = None if store.query is None else texts.read(store.query, program)
        outdated = stored is not None and stored.draft.base.identity != program.identity
        if stored is None:
            stored = StoredProgram(ProgramDraft.of(program, console), ())
        running = stored.compiled()
    except CompileError as error:
        raise CheckpointError(
            f"these options do not compile the program of {store.folder}, which has the text of the latest "
            f"run; use the options of that run: {error.diagnostics[0].render()}",
            code="checkpoint-other-program",
        ) from None
    store.check(running.identity)
    texts.write(running.identity, stored.draft, stored.queries)
    run = start(running)
    texts.keep(running.identity)
    if not is_new:
        remark(f"{store.folder}: continued at tick {run.tick}")
    return LiveProgram(
        running,
        run,
        compilation,
        watched=watched,
        console=console,
        path=Path(program.file),
        stored=stored,
        texts=texts,
        outdated=outdated,
    )
