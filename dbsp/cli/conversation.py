"""`dbsp live` on a pipe or a file: process each line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from dbsp.cli import program_files
from dbsp.cli.console import remark, report
from dbsp.cli.program_commands import PROGRAM, ProgramCommands
from dbsp.cli.program_reload import LiveProgram, ProgramChange
from dbsp.cli.result_outputs import tick_lines
from dbsp.cli.rule_entry import begins_entry, is_rule_of
from dbsp.compiler.program import Program
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError
from dbsp.io.change_script import CommitLine, ScriptTick
from dbsp.io.problems import DataError
from dbsp.io.written_lines import write_lines
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

HELP = """\
+edge(1, "text")         insert a row; a line may have several changes
-edge(1, "text")         delete a row
commit                   apply the changes and print the changes of the results
undo                     undo the latest tick or update; again: the one before it
loop(x) :- edge(x, x).   add a rule, on one or several lines; also .decl, .output and .input
rules [NAME]             list the rules, or those of a relation, with their numbers
drop N|RULE              drop a rule by its number or its text
? path(1, x), x > 2      print the rows of a query; also 'query ...'
watch path(1, x)         print the rows of a query, and with each tick their changes
watches, unwatch [N]     list the watched queries; stop watching one, or all
show path                print the rows of a result
save [--force] FILE.dl   write the text of the program
update [FILE]            compile the program again, or another one, and continue with it
update --preview [FILE]  show what that would keep, rebuild and change, and change nothing
load FILE.dl             the same with another program
quit                     exit (as at the end of the input)"""

FILE = "<stdin>"

_AT_TERMINALS = {
    "explain": "; 'dbsp explain' prints how rules are evaluated",
    "graph": "; 'dbsp graph' draws the circuit",
    "pending": "",
    "relations": "",
    "rels": "",
    "rollback": "",
    "stats": "; 'dbsp top' measures a run",
    "why": "; 'dbsp why' proves rows of a program with its facts, or of a checkpoint",
}
"""The commands that only the prompt has, with what else does the same."""


def show_initial(program: Program, run: Run) -> None:
    """Print the current results as the changes of a tick."""
    views = {name: run.view(name) for name in program.checked.outputs}
    print_deltas(program, TickResult(views, run.tick, 0.0, {}, {}), timed=False)


def print_deltas(program: Program, result: TickResult, *, timed: bool) -> None:
    """Print the changes of the results in a tick."""
    outputs = {name: result[name] for name in program.checked.outputs}
    shown = TickResult(outputs, result.number, result.seconds, result.absent, result.present)
    print("\n".join(tick_lines(shown, timed)), flush=True)


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
        self._run = run
        self._ticked = ticked
        self._source = LiveProgram(program, run) if source is None else source
        self._editing = ProgramCommands(self._source, self._changed, self._refuse_pending)
        self._by_name: dict[str, Callable[[str], None]] = {
            "help": self._help,
            "query": self._query,
            "show": self._show,
            "save": self._save,
            "load": self._load,
            **self._editing.by_name,
        }
        self.failed = False
        self._reader = program_files.change_reader(program, FILE)
        self._tick: ScriptTick | None = None
        self._invalid_lines = 0

    @property
    def program(self) -> Program:
        """The program that runs."""
        return self._source.program

    def follow(self, lines: Iterator[str]) -> None:
        """Process lines until they end or `quit`; the uncommitted changes become the last tick.

        If the file of the program has another text than the checkpoint, update to it first.
        """
        self._attempt(self._editing.begin)
        for line in lines:
            if self._tick is None and self._source.changed() and not self._editing.entry:
                self._attempt(lambda: self._editing.update(""))
            if not self._handle(line):
                break
        if self._editing.entry:
            self._attempt(self._abandon)
        if self._tick is not None:
            self._commit(self._tick.last_line)

    def _handle(self, line: str) -> bool:
        """Process a line; return whether it does not end the conversation."""
        if line[:1] in ("+", "-") and not self._editing.entry:  # most lines
            self._take(line)
            return True
        text = line.strip()
        word, _, argument = text.partition(" ")
        command = self._by_name.get(word)
        known = command is not None or word in ("quit", "exit")
        if self._editing.entry or (not known and begins_entry(line)) or is_rule_of(word, argument):
            self._reader.line += 1
            self._attempt(lambda: self._editing.take(line, self._reader.line))
        elif known:
            self._reader.line += 1
            if command is None:
                return False
            self._attempt(lambda: command(argument.strip()))
        elif text.startswith("?"):
            self._reader.line += 1
            self._attempt(lambda: self._query(text[1:]))
        elif word in _AT_TERMINALS:
            self._reader.line += 1
            message = f"'{word}' is a command for the prompt of a terminal{_AT_TERMINALS[word]}"
            self._reject(InputError(message, where=f"{FILE}:{self._reader.line}", code="invalid-command"))
        else:
            self._take(line)
        return True

    def _attempt(self, command: Callable[[], None]) -> None:
        try:
            command()
        except DbspError as error:
            if error.where is None and not getattr(error, "diagnostics", ()):
                error.where = f"{FILE}:{self._reader.line}"
            self._report(error)

    def _report(self, error: DbspError) -> None:
        report(error)
        self.failed = True

    def _reject(self, error: DbspError) -> None:
        """Report an invalid line, and reject the tick that it is in."""
        self._report(error)
        self._invalid_lines += 1
        if self._tick is None:
            self._tick = ScriptTick(self._reader.line, self._reader.line)

    def _take(self, line: str) -> None:
        try:
            changes = self._reader.feed(line)
        except DataError as error:
            self._reject(error)
            return
        if isinstance(changes, CommitLine):
            self._commit(changes.line)
            return
        for change in changes:
            if self._tick is None:
                self._tick = ScriptTick(change.line, change.line)
            self._tick.add(change)

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
            self._ticked(self._source.apply(tick, FILE))
        except DbspError as error:
            self._report(error)

    # --- commands ---------------------------------------------------------------------------------

    def _refuse_pending(self) -> None:
        if self._tick is not None:
            raise InputError("changes are pending; write commit first", code="changes-pending")

    def _changed(self, done: ProgramChange) -> None:
        """Print what changed the program, and read the changes that fit it."""
        line = self._reader.line
        self._reader = program_files.change_reader(self.program, FILE)
        self._reader.line = line
        for result in done.ticks:
            self._ticked(result)
        for text in done.remarks:
            remark(text)

    def _abandon(self) -> None:
        raise self._editing.entry.abandoned("the end of the input")

    def _help(self, argument: str) -> None:
        print(HELP, flush=True)

    def _show(self, argument: str) -> None:
        for name in argument.split() or list(self.program.checked.outputs):
            self._attempt(lambda name=name: _print_rows(self._run.view(name)))  # type: ignore[misc]

    def _query(self, body: str) -> None:
        if not body.strip():
            raise InputError("expected the body of a rule: ? path(1, x), x > 2", code="invalid-command")
        from dbsp.cli.why_answers import state_of  # loads slowly

        with state_of(self.program, self._run) as state:
            _print_rows(state.ask(body))

    def _load(self, argument: str) -> None:
        if not argument.endswith(PROGRAM):
            raise InputError(
                f"expected a file NAME{PROGRAM} after load, got '{argument}'; change scripts and facts are "
                "loaded at the prompt of a terminal",
                code="invalid-command",
            )
        self._editing.update(argument)

    def _save(self, argument: str) -> None:
        if not self._editing.save(argument):
            raise InputError(
                f"expected a file NAME{PROGRAM} after save, got '{argument}'; results are saved at the "
                "prompt of a terminal",
                code="invalid-command",
            )


def _print_rows(rows: ZSet) -> None:
    """Print rows in the format of result files."""
    sys.stdout.flush()
    write_lines(rows, sys.stdout.buffer)
    sys.stdout.buffer.flush()
