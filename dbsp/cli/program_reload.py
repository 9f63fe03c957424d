"""The program of `dbsp live`: compiled again or edited, and given to the run that continues."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbsp.cli import program_files
from dbsp.cli.console import remark
from dbsp.cli.options import Compilation
from dbsp.cli.program_draft import ProgramDraft
from dbsp.cli.query_relation import QueryRelation, with_hint
from dbsp.cli.undo_history import TickStep, UndoHistory, UpdateStep, rows_before
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.lost_rows import lost_rows
from dbsp.compiler.program import Program
from dbsp.errors import CompileError, InputError, counted, expect_present
from dbsp.io.change_script import ScriptTick
from dbsp.io.replaced_file import replaced_file
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import state_lines

REMARK = "// "
"""The begin of a remark in a change script."""


@dataclass(frozen=True)
class ProgramChange:
    """What a command did to the program: the ticks that it made, and remarks about them."""

    ticks: tuple[TickResult, ...]
    remarks: tuple[str, ...]


class LiveProgram:
    """The program of a run, its files and its edits. With `watched`, `changed` looks at the files.

    A program of a checkpoint may have edits and watched queries; `file` is then that of its file.

    Every method that raises leaves the run and its program as they are.
    """

    def __init__(
        self,
        program: Program,
        run: Run,
        compilation: Compilation | None = None,
        *,
        watched: bool = False,
        console: str = "<stdin>",
        file: Program | None = None,
    ) -> None:
        self.program = program
        """The program that runs, with the relations of the watched queries."""
        self.run = run
        self.draft = ProgramDraft.restored(program, console)
        queries = map(QueryRelation.read, program.source.sources.added)
        self.queries = [query for query in queries if query is not None]
        self._numbers = max((each.number for each in self.queries), default=0)
        self._history = UndoHistory()
        self._path = Path((file or program).file)
        outdated = file is not None and self.draft.base.identity != file.identity
        self.newer = file if outdated else None
        """The program of the file if it has another text, so that `catch_up` comes next."""
        self._compilation = compilation or Compilation()
        self._watched = watched
        self._seen = self._stamps()

    # --- facts ------------------------------------------------------------------------------------

    def apply(self, tick: ScriptTick, file: str) -> TickResult:
        """Apply a tick of a script (see `program_files.apply_tick`)."""
        return self._recorded(tick.changes, lambda: program_files.apply_tick(self.run, tick, file))

    def step(self, changes: dict[str, Any]) -> TickResult:
        """Apply changes as one tick."""
        return self._recorded(changes, lambda: self.run.step(changes))

    def _recorded(self, changes: Mapping[str, Any], step: Callable[[], TickResult]) -> TickResult:
        before, result = self.run.tick, None
        try:
            result = step()
            return result
        finally:
            if self.run.tick > before:  # an interrupt may arrive after the commit
                self._history.tick(self.run, changes, result)

    # --- the program ------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Return whether a watched file has changed since the latest call of `update`."""
        return self._watched and self._stamps() != self._seen

    def update(self, argument: str = "") -> ProgramChange:
        """Continue with the program of its file, or with that of a file of the argument.

        Without an argument, the edits stay on top of the new text; otherwise they end.
        """
        self._seen = self._stamps()  # before it is read, to miss no change
        path, draft = self._read(argument)
        gone = f"of {self._path} are gone; 'undo' restores them"
        return self._update_to(path, draft, gone if argument else "stay on top of the file")

    def _update_to(
        self, path: Path, draft: ProgramDraft, fate: str = "stay on top of the file"
    ) -> ProgramChange:
        """Continue with the program of a file; `fate` says what becomes of the edits so far."""
        edits = self.draft.edits
        done = self._switch(draft, self.queries, f"the update to {path}", path)
        self._seen = {name: self._seen.get(name, stamp) for name, stamp in self._stamps().items()}
        remarks = (f"// console edits {fate}",) if edits else ()
        return ProgramChange(done.ticks, (*done.remarks, *remarks))

    def catch_up(self) -> ProgramChange:
        """Continue with the newer program of the file; the edits stay on top of its text.

        Raises InputError if inputs would lose rows: the checkpoint may be the wrong one.
        """
        base, self.newer = expect_present(self.newer, "a newer program of the file"), None
        draft = self.draft.on(base)
        for name, rows in lost_rows(self.run, self.program, self._compiled(draft, self.queries)).items():
            raise InputError(
                f"{self._path} has no input '{name}', which has {counted(rows, 'row')} in the checkpoint, so "
                "the program of the checkpoint continues; write 'update' to drop these rows",
                code="update-refused",
            )
        return self._update_to(self._path, draft)

    def preview(self, argument: str = "") -> ProgramChange:
        """Return what `update` would do, as remarks, and change nothing."""
        would = self.run.preview_update(self._compiled(self._read(argument)[1], self.queries))
        changes = []
        for name, delta in would.deltas.items():
            weights = [weight for _, weight in delta.items()]
            more, less = sum(weight > 0 for weight in weights), sum(weight < 0 for weight in weights)
            if weights:
                changes.append(f"// {name}: {counted(more, 'row')} more, {counted(less, 'row')} less")
        return ProgramChange((), (*state_lines(would.relations, REMARK), *changes))

    def _read(self, argument: str) -> tuple[Path, ProgramDraft]:
        """Read the program of its file, with the edits; or that of a file of the argument."""
        path = Path(argument).expanduser() if argument else self._path
        base = program_files.load_program(path, self._compilation)
        return path, ProgramDraft.of(base, self.draft.added.file) if argument else self.draft.on(base)

    def add(self, text: str, line: int) -> ProgramChange:
        """Add an entry to the program, which begins on this line of the console."""
        return self._switch(self.draft.with_text(text, line), self.queries, f"added {short_line(text)}")

    def drop(self, chosen: Sequence[parsed.Item]) -> ProgramChange:
        """Drop items of the program."""
        texts = [self.program.checked.sources.between(item.span) for item in chosen]
        draft = self.draft.without(chosen)
        return self._switch(draft, self.queries, f"dropped {short_line(' '.join(texts))}")

    def watch(self, body: str) -> ProgramChange:
        """Add the output relation of a query. The first delta of the update is its rows."""
        query = QueryRelation.of(self.program, body, self._numbers + 1)
        done = self._switch(self.draft, [*self.queries, query])
        self._numbers = query.number
        return done

    def unwatch(self, queries: Sequence[QueryRelation]) -> ProgramChange:
        """Drop the relations of watched queries."""
        return self._switch(self.draft, [each for each in self.queries if each not in queries])

    def undo(self) -> ProgramChange:
        """Undo the latest tick or update that is not undone. Raises InputError if it cannot be."""
        step = self._history.latest
        changes = step.changes if isinstance(step, TickStep) else step.present
        if self.program.numbers_rows and changes:
            raise InputError(
                f"cannot undo {step}: rules with autoinc() number rows by the ticks in which they arrived, "
                "so the numbers would not be those of before",
                code="undo-refused",
            )
        if isinstance(step, TickStep):
            return self._undo_tick(step)
        before = self.run.tick
        done = self._switch(step.draft, self.queries, path=step.path)
        ticks = list(done.ticks)
        corrections = step.corrections(self.run)
        if corrections:
            ticks.append(self.run.step(corrections))
        if self.run.tick > before:
            self._history.drop_latest()
        return ProgramChange(tuple(ticks), (*done.remarks, f"// undone: {step}"))

    def _undo_tick(self, step: TickStep) -> ProgramChange:
        before = self.run.tick
        try:
            result = self.run.step(step.inverse())
        finally:
            if self.run.tick > before:
                self._history.drop_latest()
        return ProgramChange((result,), (f"// undone: {step}",))

    def save(self, path: Path, *, replace: bool) -> ProgramChange | None:
        """Write the text of the program to a file; its own file then has the edits.

        Returns the update to this file, or None for another file. Raises InputError if the file
        exists and is not to be replaced.
        """
        if path.exists() and not replace:
            raise InputError(f"{path} exists; write 'save --force {path}' to replace it", code="file-exists")
        with replaced_file(path) as file:
            file.write(self.draft.saved().encode())
        if path.resolve() != self._path.resolve():
            return None
        base = program_files.load_program(path, self._compilation)
        self._seen = self._stamps()
        return self._switch(ProgramDraft.of(base, self.draft.added.file), self.queries)

    def without_queries(self) -> Program:
        """Return the program without the relations of the watched queries."""
        return self.draft.compiled()

    def _switch(
        self,
        draft: ProgramDraft,
        queries: list[QueryRelation],
        what: str | None = None,
        path: Path | None = None,
    ) -> ProgramChange:
        """Continue with another program; `what` describes it if it is a step of the history."""
        program = self._compiled(draft, queries)
        rows = rows_before(self.run, self.program, program)
        step = UpdateStep(self.run.tick + 1, what or "", self.draft, self._path, rows or {})
        remarks = [
            f"// no longer an input: {name}, which had {counted(rows, 'row')}"
            for name, rows in lost_rows(self.run, self.program, program).items()
        ]
        # Those of a file were printed when it was read.
        known = {(found.message, found.span) for found in (*self.program.warnings, *draft.base.warnings)}
        before = self.run.tick
        try:
            done = self.run.update(program)
        finally:
            if self.run.tick > before:  # an interrupt may arrive after the commit
                if what is not None:
                    self._history.update(step, complete=rows is not None)
                self.program, self.draft, self.queries = program, draft, queries
                self._path = path or self._path
        if not self._compilation.no_warn:
            for warning in program.warnings:
                if (warning.message, warning.span) not in known:
                    remark(warning.render())
        return ProgramChange((done.deltas,), (*state_lines(done.relations, REMARK), *remarks))

    @staticmethod
    def _compiled(draft: ProgramDraft, queries: list[QueryRelation]) -> Program:
        try:
            return draft.compiled([each.added for each in queries])
        except CompileError as error:
            raise with_hint(error, queries) from None

    def _stamps(self) -> dict[str, tuple[int, int] | None]:
        """Return by file of the program when it was changed, and its size; None if missing."""
        found: dict[str, tuple[int, int] | None] = {}
        for name in self.draft.base.files if self._watched else ():
            try:
                status = os.stat(name)
                found[name] = status.st_mtime_ns, status.st_size
            except OSError:
                found[name] = None
        return found


def short_line(text: str) -> str:
    """Return the text of an item, in one short line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
