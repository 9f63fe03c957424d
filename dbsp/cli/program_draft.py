"""The text of the program of `dbsp live`: its file, with rules added and dropped at the console.

Dropped items are blanks in the text, so that all others keep their lines. Added ones are a text of
their own. Both stay when the program is compiled from its file again (`on`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

from dbsp.cli.query_relation import QueryRelation
from dbsp.compiler.datalog.compiler_passes import SourceText
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.lexer import Lexer
from dbsp.compiler.datalog.text.parse import parse
from dbsp.compiler.datalog.text.preprocess import AddedText
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.program import Program
from dbsp.compiler.stored_source import as_file
from dbsp.diagnostics import SourceSpan
from dbsp.errors import CompileError, InputError
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ProgramDraft:
    """A program as its file has it, and the edits of the console."""

    base: Program
    """The program of the file."""
    text: str
    """The text of the file without the dropped items."""
    added: AddedText
    """The added items. Each is on the lines on which it was entered."""
    dropped: tuple[parsed.Item, ...] = field(default=(), repr=False)
    """The items that were dropped from the file."""

    @classmethod
    def of(cls, base: Program, console: str) -> ProgramDraft:
        """Return a program without edits; `console` is the name of the added text in messages."""
        return cls(base, base.text, AddedText(console, ""))

    @classmethod
    def restored(cls, program: Program, console: str) -> ProgramDraft:
        """Return the draft of a compiled program, without the texts of watched queries.

        `console` is the name of the added text if it has none.
        """
        if program.source.unedited is None and not program.source.sources.added:
            return cls.of(program, console)
        base = Program(as_file(program.source), program.options)
        added = [each for each in program.source.sources.added if QueryRelation.read(each) is None]
        draft = cls(base, program.text, added[0] if added else AddedText(console, ""))
        left = {item.span for item in draft.items}
        gone = tuple(item for item in cls.of(base, console).items if item.span not in left)
        return replace(draft, dropped=gone)

    @property
    def edits(self) -> int:
        """The number of added and dropped items."""
        return len(self.dropped) + sum(item.span.file == self.added.file for item in self.items)

    @cached_property
    def items(self) -> tuple[parsed.Item, ...]:
        """The rules, declarations and directives; those of a component follow its head."""
        source = self._source(())
        report = Report(source.file, source.text)
        return tuple(_flat(parse(source.text, report, source.sources).items))

    def compiled(self, others: Sequence[AddedText] = ()) -> Program:
        """Compile the edited program, with other texts at its end. Raises CompileError.

        Included files are not read again.
        """
        if not others and not self.added.text.strip() and not self.dropped:
            return self.base
        return Program(self._source(others), self.base.options)

    def _source(self, others: Sequence[AddedText]) -> SourceText:
        added = (self.added, *others) if self.added.text.strip() else tuple(others)
        source = self.base.source
        texts = self.base.checked.sources.texts
        return replace(
            source,
            text=self.text,
            sources=replace(source.sources, texts=texts, added=added),
            unedited=self.base.text,
        )

    def with_text(self, text: str, line: int) -> ProgramDraft:
        """Return the program with an entry at its end, which begins on this line of the console."""
        _refuse_include(text, self.added.file)
        before = self.added.text
        gap = max(1, line - 1 - before.count("\n")) if before else line - 1
        return replace(self, added=AddedText(self.added.file, before + "\n" * gap + text))

    def without(self, chosen: Sequence[parsed.Item]) -> ProgramDraft:
        """Return the program without items of it; a `.plan` goes with its rule.

        Raises InputError if an item is in an included file, or if other items share its text, as in
        a macro.
        """
        gone = list(_with_plans(self.items, {item.span for item in chosen}))
        spans = [item.span for item in gone]
        for span in spans:
            if span.file not in (self.base.file, self.added.file):
                raise InputError(
                    f"cannot drop the rule at {span.place}, since the program includes this file; edit the "
                    "file, and run 'update'",
                    code="rule-not-dropped",
                )
        from_file = tuple(item for item in gone if item.span.file == self.base.file)
        draft = replace(
            self,
            text=_blanked(self.text, [span for span in spans if span.file == self.base.file]),
            added=replace(
                self.added,
                text=_blanked(self.added.text, [span for span in spans if span.file == self.added.file]),
            ),
            dropped=self.dropped + from_file,
        )
        left = tuple(item for item in self.items if item.span not in spans)
        try:
            exact = draft.items == left
        except CompileError:
            exact = False
        if not exact:
            raise InputError(
                f"cannot drop the rule at {spans[0].place}, since a macro writes a part of it; edit the "
                "file, and run 'update'",
                code="rule-not-dropped",
            )
        return draft

    def equal_items(self, item: parsed.Item) -> list[parsed.Item]:
        """Return the items with the same meaning and names, wherever they are."""
        return [each for each in self.items if each == item]

    def on(self, base: Program) -> ProgramDraft:
        """Return the same edits of a new text of the file; items that it lacks stay dropped."""
        draft = replace(ProgramDraft.of(base, self.added.file), added=self.added)
        chosen = [
            each for item in self.dropped for each in draft.equal_items(item) if each.span.file == base.file
        ]
        found = draft.without(chosen) if chosen else draft
        return replace(found, dropped=self.dropped)

    def saved(self) -> str:
        """Return the text as a file: without the lines of dropped items, with the added ones."""
        lines = zip(self.base.text.split("\n"), self.text.split("\n"), strict=True)
        kept = [
            after if after == before else after.strip()
            for before, after in lines
            if after.strip() or not before.strip()
        ]
        added = [line for line in self.added.text.split("\n") if line.strip()]
        text = "\n".join(kept)
        if added and text and not text.endswith("\n"):
            text += "\n"
        return text + "".join(f"{line.rstrip()}\n" for line in added)


def _flat(items: Sequence[parsed.Item]) -> Iterator[parsed.Item]:
    for item in items:
        if isinstance(item, parsed.Component):
            yield replace(item, items=())
            yield from _flat(item.items)
            yield parsed.ComponentEnd(item.span)
        else:
            yield item


def _with_plans(items: Sequence[parsed.Item], chosen: set[SourceSpan]) -> Iterator[parsed.Item]:
    """Yield the items at these places, and the `.plan` behind each."""
    previous = False
    for item in items:
        previous = item.span in chosen or (previous and isinstance(item, parsed.PlanDirective))
        if previous:
            yield item


def _blanked(text: str, spans: Sequence[SourceSpan]) -> str:
    lines = text.split("\n")
    for span in spans:
        for number in range(span.line, span.end_line + 1):
            line = lines[number - 1]
            start = span.column - 1 if number == span.line else 0
            end = span.end_column - 1 if number == span.end_line else len(line)
            lines[number - 1] = line[:start] + " " * (end - start) + line[end:]
    return "\n".join(lines)


def _refuse_include(text: str, file: str) -> None:
    for token in Lexer(text, Report(file, text)).tokens():
        if token.type == "INCLUDE":
            raise InputError(
                "expected a rule or a declaration, got '.include', which only a file may contain; write it "
                "into the file of the program, and run 'update'",
                code="invalid-command",
            )
