"""`dbsp live` on a pipe or a file: process each line."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

from dbsp.cli import program_files
from dbsp.cli.console import remark, report
from dbsp.cli.program_reload import LiveProgram, report_lines
from dbsp.cli.result_outputs import tick_lines
from dbsp.compiler.program import Program
from dbsp.errors import DbspError, InputError
from dbsp.io.change_script import ChangeLine, CommitLine, ScriptTick
from dbsp.io.problems import DataError
from dbsp.io.results import format_rows
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

HELP = """\
+edge(1, "text")   insert a row          show path   print the rows of a result
-edge(1, "text")   delete a row          quit        exit (as at the end of the input)
commit             apply the changes and print the changes of the results
update [FILE]      compile the program again, or another one, and continue with it"""

FILE = "<stdin>"


def show_initial(program: Program, run: Run) -> None:
    """Print the current results as the changes of a tick."""
    views = {name: run.view(name) for name in program.checked.outputs}
    print_deltas(program, TickResult(views, run.tick, 0.0, {}, {}), timed=False)


def print_deltas(program: Program, result: TickResult, *, timed: bool) -> None:
    """Print the changes of the results in a tick."""
    outputs = {name: result[name] for name in program.checked.outputs}
    shown = TickResult(outputs, result.number, result.seconds, result.absent, result.present)
    print("\n".join(tick_lines(shown, timed)), flush=True)


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input as they arrive."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        # Bytes that are not UTF-8 invalidate their own line only.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return iter(sys.stdin.readline, "")


class Conversation:
    """Stages changes and applies them at each commit.

    `ticked` is called with the result of each tick. An invalid line rejects its whole tick, because
    a script cannot correct it.
    """

    def __init__(
        self,
        program: Program,
        run: Run,
        ticked: Callable[[TickResult], None],
        source: LiveProgram | None = None,
    ) -> None:
        self.program = program
        self._run = run
        self._ticked = ticked
        self._source = LiveProgram(program, run) if source is None else source
        self.failed = False
        self._reader = program_files.change_reader(program, FILE)
        self._tick: ScriptTick | None = None
        self._invalid_lines = 0

    def follow(self, lines: Iterator[str]) -> None:
        """Process lines until they end or `quit`; the uncommitted changes become the last tick."""
        for line in lines:
            words = line.split()
            if self._tick is None and self._source.changed():
                self._update("")
            if words and words[0] in ("help", "quit", "exit", "show", "update") and "(" not in line:
                self._reader.line += 1
                if words[0] in ("quit", "exit"):
                    break
                self._answer(words)
                continue
            self._take(line)
        if self._tick is not None:
            self._commit(self._tick.last_line)

    def _take(self, line: str) -> None:
        try:
            change = self._reader.feed(line)
        except DataError as error:
            report(error)
            self.failed = True
            self._invalid_lines += 1
            if self._tick is None:
                self._tick = ScriptTick(self._reader.line, self._reader.line)
            return
        if isinstance(change, ChangeLine):
            if self._tick is None:
                self._tick = ScriptTick(change.line, change.line)
            self._tick.add(change)
        elif isinstance(change, CommitLine):
            self._commit(change.line)

    def _commit(self, line: int) -> None:
        tick, self._tick = ScriptTick(line, line) if self._tick is None else self._tick, None
        invalid, self._invalid_lines = self._invalid_lines, 0
        tick.last_line = max(line, tick.last_line)
        try:
            if invalid:
                raise InputError(
                    f"the tick was not applied and changed nothing: "
                    f"{'1 line is' if invalid == 1 else f'{invalid} lines are'} invalid",
                    where=f"{FILE}:{tick.lines}",
                    code="invalid-line",
                )
            self._ticked(program_files.apply_tick(self._run, tick, FILE))
        except DbspError as error:
            report(error)
            self.failed = True

    def _update(self, argument: str) -> None:
        """Continue with the program of its file, or of another one; print the changes as a tick."""
        try:
            if self._tick is not None:
                raise InputError("changes are pending; write commit before update", code="changes-pending")
            done = self._source.update(argument)
        except DbspError as error:
            report(error)
            self.failed = True
            return
        self.program = self._source.program
        line = self._reader.line
        self._reader = program_files.change_reader(self.program, FILE)
        self._reader.line = line
        self._ticked(done.deltas)
        for text in report_lines(done):
            remark(text)

    def _answer(self, words: list[str]) -> None:
        if words[0] == "help":
            print(HELP, flush=True)
            return
        if words[0] == "update":
            self._update(" ".join(words[1:]))
            return
        names = words[1:] or list(self.program.checked.outputs)
        for name in names:
            try:
                data, _ = format_rows(self._run.view(name))
            except DbspError as error:
                report(error)
                self.failed = True
                continue
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
