"""The commands of `dbsp live` that change the running program, at the prompt and from a pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dbsp.cli.program_reload import LiveProgram, ProgramChange, short_line
from dbsp.cli.rule_entry import RuleEntry
from dbsp.cli.tables import aligned
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import SourceSpan, did_you_mean
from dbsp.errors import CompileError, InputError

PROGRAM = ".dl"
"""The suffix of the files that `load` and `save` take as programs."""

FORCE = "--force"
PREVIEW = "--preview"


class ProgramCommands:
    """Rules, watched queries and undo on one run.

    `changed` receives what a command did. `ready` raises if changes of facts are pending. If a
    command raises, nothing has changed.
    """

    def __init__(
        self, source: LiveProgram, changed: Callable[[ProgramChange], None], ready: Callable[[], None]
    ) -> None:
        self._source = source
        self._changed = changed
        self._ready = ready
        self.entry = RuleEntry()
        self.by_name: dict[str, Callable[[str], None]] = {
            "rules": self._rules,
            "drop": self._drop,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "watches": self._watches,
            "undo": self._undo,
            "update": self.update,
        }

    # --- rules ------------------------------------------------------------------------------------

    def take(self, line: str, number: int) -> None:
        """Add a line of an entry; if the entry is complete, add it to the program."""
        text = self.entry.feed(line, number)
        if text is not None:
            self._ready()  # not earlier: the lines of the entry belong together
            self._refuse_fact(text)
            self._changed(self._source.add(text, self.entry.first_line))

    def _refuse_fact(self, text: str) -> None:
        """Raise InputError for a fact of an input, which a change can insert and retract."""
        try:
            items = _items(text)
        except CompileError:
            return  # the compiler reports it at its line
        for item in items:
            if isinstance(item, parsed.Clause) and item.body is None:
                name = item.heads[0].relation
                if name in self._source.program.inputs:
                    atom = text.strip().rstrip(".")
                    raise InputError(
                        f"expected a rule, got a row of the input '{name}'; write '+{short_line(atom)}' to "
                        "insert it",
                        code="unknown-command",
                    )

    def _rules(self, argument: str) -> None:
        program = self._source.program
        numbers = self._numbers()
        relations: dict[SourceSpan, set[str]] = {}
        for rule in program.checked.clauses:
            relations.setdefault(rule.span, set()).add(rule.head.relation)
        cells = []
        for item in self._source.draft.items:
            if not isinstance(item, parsed.Clause) or item.body is None:
                continue
            heads = {head.relation for head in item.heads} | relations.get(item.span, set())
            if argument in ("", *heads):
                text = program.checked.sources.between(item.span)
                shown = ", ".join(map(str, numbers.get(item.span, ()))) or "-"
                cells.append((shown, item.span.place, " ".join(text.split())))
        if argument and argument not in program.relations and not cells:
            hint = did_you_mean(argument, program.relations) or "'rules' lists all rules"
            raise InputError(f"unknown relation '{argument}'; {hint}", code="unknown-relation")
        if not cells:
            print("no rules")
            return
        widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
        for number, place, text in cells:
            print(f"{number.rjust(widths[0])}  {place.ljust(widths[1])}  {text}")

    def _numbers(self) -> dict[SourceSpan, list[int]]:
        """Return by place the numbers of the rules, which `explain N` takes, too."""
        numbers: dict[SourceSpan, list[int]] = {}
        for rule in self._source.program.checked.clauses:
            numbers.setdefault(rule.span, []).append(rule.number)
        return numbers

    def _drop(self, argument: str) -> None:
        if not argument:
            raise InputError(
                "expected a rule or its number: drop 2, or drop path(x, y) :- edge(x, y).",
                code="invalid-command",
            )
        self._ready()
        draft = self._source.draft
        if argument.isdecimal():
            number = int(argument) if len(argument) <= 18 else 0  # int() refuses 4301 digits
            places = {span for span, found in self._numbers().items() if number in found}
            chosen = [item for item in draft.items if item.span in places]
        else:
            given = argument if argument.startswith(".") else f"{argument.rstrip('.')}."
            chosen = [each for item in _items(given) for each in draft.equal_items(item)]
        if not chosen:
            raise InputError(
                f"the program has no rule {short_line(argument)}; 'rules' lists the rules with their numbers",
                code="rule-not-found",
            )
        self._changed(self._source.drop(chosen))

    # --- watched queries --------------------------------------------------------------------------

    def _watch(self, argument: str) -> None:
        if not argument:
            raise InputError("expected a query: watch path(1, x), x > 2", code="invalid-command")
        self._ready()
        done = self._source.watch(argument)
        query = self._source.queries[-1]
        remark = f"// watch {query.number}: {query.body}"
        self._changed(ProgramChange(done.ticks, (remark,)))

    def _watches(self, argument: str) -> None:
        queries = self._source.queries
        if not queries:
            print("no watched queries")
            return
        run = self._source.run
        cells = [[str(each.number), f"{len(run.view(each.relation)):,}", each.body] for each in queries]
        print(*aligned(("watch", "rows", "query"), cells), sep="\n")

    def _unwatch(self, argument: str) -> None:
        chosen = [each for each in self._source.queries if argument in ("", str(each.number))]
        if not chosen:
            raise InputError(
                f"expected the number of a watched query, got '{argument}'; 'watches' lists them"
                if argument
                else "no query is watched; 'watch QUERY' watches one",
                code="invalid-command",
            )
        self._ready()
        done = self._source.unwatch(chosen)
        numbers = ", ".join(str(each.number) for each in chosen)
        self._changed(ProgramChange(done.ticks, (f"// no longer watched: {numbers}",)))

    # --- files and undo ---------------------------------------------------------------------------

    def update(self, argument: str) -> None:
        """Continue with the program of its file, or of another one, or say what that would do."""
        self._ready()
        preview, name = _with_option(PREVIEW, argument)
        self._changed(self._source.preview(name) if preview else self._source.update(name))

    def begin(self) -> None:
        """Continue with the program of the file, if the checkpoint has another text of it."""
        if self._source.newer is not None:
            self._changed(self._source.catch_up())

    def save(self, argument: str) -> bool:
        """Write the program if the argument names a file of a program; return whether it does."""
        force, name = _with_option(FORCE, argument)
        if not name.endswith(PROGRAM):
            if force:
                raise InputError(f"expected a file NAME{PROGRAM} after {FORCE}", code="invalid-command")
            return False
        self._ready()
        done = self._source.save(Path(name).expanduser(), replace=force)
        print(f"wrote {name}")
        if done is not None:
            self._changed(done)
        return True

    def _undo(self, argument: str) -> None:
        if argument:
            raise InputError(f"'undo' takes no argument, got '{argument}'", code="invalid-command")
        self._ready()
        self._changed(self._source.undo())


def _with_option(option: str, argument: str) -> tuple[bool, str]:
    """Return whether an argument has the option, and the argument without it."""
    if option not in argument.split():
        return False, argument
    return True, argument.replace(option, "", 1).strip()


def _items(text: str) -> tuple[parsed.Item, ...]:
    return parse(text, Report("<console>", text)).items
