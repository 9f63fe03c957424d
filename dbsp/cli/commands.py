"""The commands at the prompt of `dbsp live`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from dbsp.cli import program_files, why_answers
from dbsp.cli.console import QuitConsole, remark, report
from dbsp.cli.paging import paged
from dbsp.cli.program_commands import PROGRAM, ProgramCommands
from dbsp.cli.program_reload import LiveProgram, ProgramChange
from dbsp.cli.program_words import declared_types
from dbsp.cli.result_outputs import FolderOutput, report_ambiguous, tick_lines
from dbsp.cli.rule_entry import begins_entry, is_rule_of
from dbsp.cli.tables import LIMIT, aligned, table_of
from dbsp.cli.unquoted_texts import remark_in_answers
from dbsp.compiler.datalog.meaning.directives import fact_source
from dbsp.compiler.program import Program
from dbsp.diagnostics import did_you_mean
from dbsp.errors import DbspError, InputError, shorten
from dbsp.io.change_script import CommitLine, ScriptTick
from dbsp.io.places import write_place
from dbsp.io.results import literal_of
from dbsp.io.table_places import TABLE_FILES
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult

FILE = "<console>"

HELP = (
    ('+edge(1, "text")', "insert a row; a line may have several changes"),
    ('-edge(1, "text")', "delete a row"),
    ("commit", "apply the pending changes as one tick and print the changes of the results"),
    ("pending", "list the changes since the last commit"),
    ("rollback", "discard the pending changes"),
    ("undo", "undo the latest tick or update; again: the one before it"),
    ("loop(x) :- edge(x, x).", "add a rule, on one or several lines; also .decl, .output and .input"),
    ("rules [NAME]", "list the rules, or those of a relation, with their numbers"),
    ("drop N|RULE", "drop a rule by its number or its text, or a directive by its text"),
    ("? path(1, x), x > 2", "query: any body of a rule; also 'query ...'"),
    ("watch path(1, x)", "print the rows of a query, and with each tick their changes"),
    ("watches", "list the watched queries"),
    ("unwatch [N]", "stop watching a query, or all"),
    ("show NAME [N|all]", f"print the rows of a relation: the first {LIMIT}, the first N, or all"),
    ("rels [NAME ...]", "list the relations with their columns and sizes"),
    ("explain [NAME|N]", "print how all rules, the rules of a relation, or rule N are evaluated"),
    ("why path(1, 3)", "print a proof of a row; --depth N, --rows N"),
    ("why not path(3, 1)", "print how far each rule gets; --depth N"),
    ("why tick path(1, 3)", "print why the last tick changed a row; --depth N, --rows N"),
    ("graph [FILE]", "print the circuit as DOT, or draw it to a file: .svg, .png, .pdf, .dot"),
    ("stats", "print the number of ticks, stored rows and bytes"),
    ("save DIR", "write the results, and the rows of inputs as fact files"),
    ("save [--force] FILE.dl", "write the text of the program; with --force also to an existing file"),
    (
        "load FILE",
        "apply a change script, tick by tick; NAME.facts, .parquet, .csv or .ndjson: insert its rows",
    ),
    ("load FILE.dl", "continue with another program, as 'update FILE.dl' does"),
    ("update [FILE]", "compile the program again, or another one, and continue with it"),
    ("update --preview [FILE]", "show what that would keep, rebuild and change, and change nothing"),
    ("help [COMMAND]", "print this list"),
    ("quit", "exit, like Ctrl-D"),
)

LISTINGS = frozenset(
    {
        "query",
        "show",
        "rels",
        "relations",
        "rules",
        "explain",
        "why",
        "graph",
        "stats",
        "pending",
        "watches",
        "help",
    }
)
"""The commands whose output a terminal shows page by page if it is long."""

_SHOWN_DELTAS = 40

_QUERY_SIGN = re.compile(r"\?(-(?=\s*[A-Za-z_!]))?")
"""`?`, or `?-` as in Prolog."""

_VERBS = {
    **dict.fromkeys(("insert", "add", "assert"), "'+edge(1, 2)' inserts a row"),
    **dict.fromkeys(("delete", "remove", "retract"), "'-edge(1, 2)' deletes a row"),
    **dict.fromkeys(("select", "find"), "'? edge(x, y), x > 1' queries rows"),
}
"""The hints for commands of other languages."""

_OPTION = re.compile(r"\s--(depth|rows)[\s=]+(\S+)")


class ConsoleCommands:
    """The commands on one run, and the changes since the last commit.

    If `handle` raises DbspError, nothing has changed; after a failed commit the changes stay
    pending.
    """

    def __init__(
        self, program: Program, run: Run, *, timed: bool = True, source: LiveProgram | None = None
    ) -> None:
        self.run = run
        self._source = LiveProgram(program, run, console=FILE) if source is None else source
        self._editing = ProgramCommands(self._source, self._changed, self._refuse_pending)
        self.pending = ScriptTick(1, 1)
        self._timed = timed
        self._lines = 0
        self._read_program = program
        self._reader = program_files.change_reader(program, FILE)
        self._by_name: dict[str, Callable[[str], None]] = {
            "commit": self._commit,
            "pending": self._show_pending,
            "rollback": self._rollback,
            "query": self._query,
            "show": self._show,
            "rels": self._relations,
            "relations": self._relations,
            "explain": self._explain,
            "why": self._why,
            "graph": self._graph,
            "stats": self._stats,
            "save": self._save,
            "load": self._load,
            "help": self._help,
            "quit": self._quit,
            "exit": self._quit,
            **self._editing.by_name,
        }

    @property
    def program(self) -> Program:
        """The program that runs."""
        return self._source.program

    @property
    def in_entry(self) -> bool:
        """Whether a rule is not complete."""
        return bool(self._editing.entry)

    def begin(self) -> None:
        """Continue with the program of the file, if the checkpoint has another text of it."""
        self._editing.begin()

    def discard(self) -> None:
        """Abandon a rule that is not complete; an InputError says so, if there is one."""
        if self._editing.entry:
            raise self._editing.entry.abandoned("Ctrl-C")

    @property
    def names(self) -> list[str]:
        """The names of all commands."""
        return list(self._by_name)

    def handle(self, line: str) -> None:
        """Run the command of a line; before it, update the program if its watched file changed.

        An error of this update is reported, and the line is a command for the program that stays.
        """
        self._lines += 1
        text = line.strip()
        if not self.pending and not self.in_entry and self._source.changed():
            try:
                self._editing.update("")
            except DbspError as error:
                report(error)
        word, _, argument = text.partition(" ")
        name = word.rstrip(";")
        command = self._by_name.get(name)
        if self.in_entry or (command is None and begins_entry(line)) or is_rule_of(name, argument):
            self._editing.take(line, self._lines)
        elif text.startswith("?"):
            with paged():
                self._query(_QUERY_SIGN.sub("", text, count=1))
        elif command is not None:
            with paged() if name in LISTINGS else nullcontext():
                command(argument.strip())
        elif not text or text[0] in "+-/#":
            self._change(line)
        else:
            raise self._unknown(text)

    def _unknown(self, text: str) -> InputError:
        word = re.match(r"[\w?.]+", text)
        name = word[0] if word else text[:20]
        if text[len(name) :].lstrip().startswith("(") or name in self.program.relations:
            atom = text if "(" in text else f"{name}(...)"
            insert = f", or '+{atom}' to insert a row" if name in self.program.inputs else ""
            return InputError(
                f"expected a command, got the relation '{name}'; write '? {atom}' to query rows{insert}",
                code="unknown-command",
            )
        return self._unknown_command(name)

    def _unknown_command(self, name: str) -> InputError:
        hint = _VERBS.get(name.lower()) or did_you_mean(name, self.names) or "'help' lists the commands"
        return InputError(f"unknown command '{name}'; {hint}", code="unknown-command")

    # --- changes ---------------------------------------------------------------------------------

    def _change(self, line: str) -> None:
        if self._read_program is not self.program:  # also after an interrupt of an update
            self._read_program = self.program
            self._reader = program_files.change_reader(self.program, FILE)
        self._reader.line = self._lines - 1
        changes = self._reader.feed(line)
        if isinstance(changes, CommitLine):
            self._commit("")
            return
        if changes and not self.pending:
            self._forget()
        for change in changes:
            self.pending.add(change)

    def _commit(self, argument: str) -> None:
        self._refuse_argument("commit", argument)
        before = self.run.tick
        try:
            result = self._source.apply(self.pending, FILE)
        finally:
            if self.run.tick > before:  # an interrupt may arrive after the commit
                self._forget()
        self._print(result)

    def _print(self, result: TickResult) -> None:
        outputs = {name: result[name] for name in self.program.checked.outputs}
        shown = TickResult(outputs, result.number, result.seconds, result.absent, result.present)
        *deltas, end = tick_lines(shown, self._timed)
        print(*deltas[:_SHOWN_DELTAS], sep="\n", end="\n" if deltas else "")
        if len(deltas) > _SHOWN_DELTAS:
            print(f"// and {len(deltas) - _SHOWN_DELTAS:,} more changes")
        print(end)

    def _show_pending(self, argument: str) -> None:
        self._refuse_argument("pending", argument)
        for name, rows in self.pending.changes.items():
            for row, weight in rows.items():
                print(f"{'+' if weight > 0 else '-'}{name}({', '.join(map(literal_of, row))})")
        if not self.pending:
            print("no changes are pending")

    def _rollback(self, argument: str) -> None:
        self._refuse_argument("rollback", argument)
        print(f"discarded {_counted(len(self.pending), 'change')}")
        self._forget()

    def _forget(self) -> None:
        self.pending = ScriptTick(self._lines, self._lines)

    def _load(self, argument: str) -> None:
        if not argument:
            raise InputError("expected a file: load FILE", code="invalid-command")
        self._refuse_pending()
        path = Path(argument).expanduser()
        if path.suffix == PROGRAM:
            self._editing.update(argument)
            return
        if path.suffix in (".facts", *TABLE_FILES) and path.stem in self.program.inputs:
            self._load_facts(path)
            return
        for tick in program_files.read_changes(self.program, path):
            self._print(self._source.apply(tick, argument))

    def _load_facts(self, path: Path) -> None:
        name = path.stem
        parameters = {"filename": path.name, "IO": TABLE_FILES.get(path.suffix, "file")}
        place = fact_source(name, parameters, path.parent)
        rows = program_files.read_place_of(self.program, name, place)
        with declared_types(self.program, [name]):
            result = self._source.step({name: rows})
        self._print(result)

    def _refuse_pending(self) -> None:
        if self.pending:
            raise InputError("changes are pending; run commit or rollback first", code="changes-pending")

    def _changed(self, done: ProgramChange) -> None:
        """Print what changed the program."""
        for result in done.ticks:
            self._print(result)
        for text in done.remarks:
            print(text)

    # --- queries ---------------------------------------------------------------------------------

    def _query(self, argument: str) -> None:
        if not argument.strip():
            raise InputError("expected the body of a rule: ? path(1, x), x > 2", code="invalid-command")
        with why_answers.state_of(self.program, self.run) as state:
            answers = state.ask(argument)
        remark_in_answers(answers)
        if answers.schema.arity:
            print(*table_of(answers), sep="\n")
        else:
            print("yes" if answers else "no")

    def _show(self, argument: str) -> None:
        names = argument.split() or list(self.program.checked.outputs)
        limit: int | None = LIMIT
        if len(names) > 1 and (names[-1] == "all" or names[-1].isdecimal()):
            # A number of 19 digits exceeds every number of rows, and int() refuses 4301 digits.
            limit = None if names[-1] == "all" or len(names[-1]) > 18 else int(names[-1])
            names.pop()
        with why_answers.state_of(self.program, self.run) as state:
            relations = [(name, state.rows(name)) for name in names]
        for number, (name, rows) in enumerate(relations):
            if len(relations) > 1:
                print(f"{'' if number == 0 else chr(10)}{name}")
            print(*table_of(rows, limit), sep="\n")

    def _relations(self, argument: str) -> None:
        known = self.program.relations
        names = argument.split() or list(known)
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or "'rels' lists the relations"
                raise InputError(f"unknown relation '{name}'; {hint}", code="unknown-relation")
        cells = []
        for name in names:
            columns = ", ".join(
                f"{attribute.name}: {attribute.type_name}" for attribute in known[name].attributes
            )
            roles = [role for role, names_of_role in self._roles() if name in names_of_role] or ["derived"]
            cells.append([name, f"({columns})", ", ".join(roles), self._size(name)])
        print(*aligned(("relation", "columns", "role", "rows"), cells), sep="\n")

    def _roles(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield "input", self.program.checked.inputs
        yield "output", self.program.checked.outputs

    def _size(self, name: str) -> str:
        """Return the number of rows of a relation; "" if it must be derived again to count them."""
        if name in self.run.outputs:
            return f"{len(self.run.view(name)):,}"
        derived = any(rule.head.relation == name for rule in self.program.checked.rules)
        return "" if derived else f"{len(self.run.asserted(name)):,}"

    def _explain(self, argument: str) -> None:
        report = self.program.explain(self.run)
        if argument:
            parts = list(_parts(report, argument))
            if not parts:
                hint = did_you_mean(argument, self.program.relations)
                raise InputError(
                    f"expected a relation with rules or the number of a rule, got '{argument}'"
                    + (f"; {hint}" if hint else ""),
                    code="unknown-relation",
                )
            report = "\n".join(parts)
        print(report)

    def _why(self, argument: str) -> None:
        options = {name: _number(value, name) for name, value in _OPTION.findall(argument)}
        goal = _OPTION.sub("", argument).strip()
        negated = re.match(r"not\s+(?!\()", goal)
        ticked = re.match(r"tick\s+(?!\()", goal)
        if not goal:
            raise InputError("expected a row: why path(1, 3), or why not path(3, 1)", code="invalid-command")
        with why_answers.state_of(self.program, self.run) as state:
            if negated:
                atom = goal[negated.end() :]
                hint = f"'why {atom}' prints its proof"
                why_answers.print_refusal(state, atom, options.get("depth", 1), hint)
            elif ticked:
                depth = options.get("depth", why_answers.DEPTH)
                why_answers.print_reasons(state, goal[ticked.end() :], options.get("rows", 1), depth)
            else:
                depth = options.get("depth", why_answers.DEPTH)
                hint = f"'why not {goal}' prints why"
                why_answers.print_proofs(state, goal, options.get("rows", 1), depth, hint)

    def _graph(self, argument: str) -> None:
        from dbsp.circuit import drawing

        if not argument:
            print(drawing.to_dot(self.run.graph), end="")
            return
        drawing.write(self.run.graph, Path(argument).expanduser())
        print(f"wrote {argument}")

    def _stats(self, argument: str) -> None:
        self._refuse_argument("stats", argument)
        run = self.run
        files = f" of memory and {run.file_bytes:,} bytes of files" if run.file_bytes else ""
        size = f"{run.state_bytes:,} bytes{files}"
        print(f"{_counted(run.tick, 'tick')}, {run.state_rows:,} rows stored in {size}")
        for name, iterations in run.iterations().items():
            print(f"{name}: {_counted(iterations, 'iteration')} in the latest tick")
        _, _, traces = self.program.explain(run).partition("\ntraces\n")
        print("traces", traces, sep="\n")

    # --- the rest --------------------------------------------------------------------------------

    def _save(self, argument: str) -> None:
        if not argument:
            raise InputError(
                "expected a folder or a program: save DIR, or save FILE.dl", code="invalid-command"
            )
        if self._editing.save(argument):
            return
        folder = Path(argument).expanduser()
        program = self._source.without_queries()
        outputs = FolderOutput(program, folder, timed=False)
        for name in self.program.inputs:
            place = fact_source(name, {}, folder)
            report_ambiguous(place, write_place(place, self.run.asserted(name)))
        outputs.finished(self.run)
        if self.pending:
            remark("the saved files do not include the pending changes")
        inputs, results = len(program.inputs), len(program.checked.outputs)
        print(f"wrote {_counted(inputs, 'input')} and {_counted(results, 'result')} to {argument}")

    def _help(self, argument: str) -> None:
        entries = [entry for entry in HELP if argument in entry[0]]
        if not entries:
            raise self._unknown_command(argument)
        width = max(len(usage) for usage, _ in entries)
        for usage, meaning in entries:
            print(f"{usage.ljust(width)}  {meaning}")

    def _quit(self, argument: str) -> None:
        self._refuse_argument("quit", argument)
        raise QuitConsole

    def _refuse_argument(self, command: str, argument: str) -> None:
        if argument and not argument.startswith(("//", "#")):
            raise InputError(f"'{command}' takes no argument, got '{argument}'", code="invalid-command")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _number(value: str, option: str) -> int:
    if not value.isdecimal() or len(value) > 18 or not int(value):
        expected = f"--{option} expects a whole number from 1"
        raise InputError(f"{expected}, got {shorten(value)}", code="invalid-option")
    return int(value)


def _parts(report: str, selected: str) -> Iterator[str]:
    """Yield the parts of a report about the rule with a number, or the rules of a relation."""
    part: list[str] = []
    for line in [*report.split("\n"), ""]:
        if part and not line.startswith("    "):
            if part[0].split()[1] == selected or part[1].startswith(f"    {selected}("):
                yield "\n".join(part)
            part = []
        if part or line.startswith("  rule "):
            part.append(line)
