"""Displays of proofs and refusals: trees of rows and rules."""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.compiler.datalog.text.highlighting import highlighted
from dbsp.compiler.why.proof import Premise, Proof, ProofStep
from dbsp.compiler.why.refusal import Match, Refusal, Status
from dbsp.display.document import Document, Line, Span, Style, Tree, line, muted, printable, strong
from dbsp.errors import counted

DEPTH = 12
ROWS = 200
"""The largest number of rows of a proof that a display shows."""
_WIDE = 200
_MARKS: dict[Status, Span] = {
    "holds": Span("+ ", Style.ADDED),
    "fails": Span("- ", Style.REMOVED),
    "open": muted("? "),
}


def proof_document(proof: Proof) -> Document:
    """Return the display of a proof, at most `DEPTH` rules deep and of at most `ROWS` rows."""
    goal = proof.steps[proof.goal]
    size = f"  height {proof.height}, {counted(len(proof.steps), 'row')}"
    title = line(strong("proof of "), printable(goal.text, _WIDE), muted(size))
    return Document(title, (_Drawing(proof).tree(goal, 0),))


class _Drawing:
    """The drawing of a proof: a row is expanded where it occurs first."""

    def __init__(self, proof: Proof) -> None:
        self._steps = proof.steps
        self._drawn: set[object] = set()

    def tree(self, step: ProofStep, level: int) -> Tree:
        text = printable(step.text, _WIDE)
        if step.rule is None:
            return Tree(line(Span(text, Style.ADDED), muted(f"  {step.leaf}")))
        if step.key in self._drawn:
            return Tree(line(text, muted("  proved above")))
        if step.premises is None or level >= DEPTH or len(self._drawn) >= ROWS:
            return Tree(line(text, muted(f"  ... proof of height {step.height} not shown")))
        self._drawn.add(step.key)
        left = len(step.premises) - ROWS
        more = (Tree(line(muted(f"... and {left:,} more premises"))),) if left > 0 else ()
        return Tree(
            (strong(text), muted(f"  {printable(str(step.place), _WIDE)}: "), *rule_line(step.rule)),
            (*(self._premise(premise, level + 1) for premise in step.premises[:ROWS]), *more),
        )

    def _premise(self, premise: Premise, level: int) -> Tree:
        if premise.key is not None:
            return self.tree(self._steps[premise.key], level)
        text = line(printable(premise.text, _WIDE))
        if premise.kind == "absent":
            return Tree((*text, muted("  no row matches")))
        left = premise.solutions - len(premise.witnesses)
        more = (Tree(line(muted(f"... and {left:,} more"))),) if premise.witnesses and left else ()
        return Tree(text, (*(Tree(line(printable(row, _WIDE))) for row in premise.witnesses), *more))


def refusal_document(refusal: Refusal) -> Document:
    """Return the display of a refusal: for every rule the literals that hold and that fail."""
    title = line(strong("why not "), printable(refusal.text, _WIDE))
    return Document(title, tuple(_refusals(refusal)))


def _refusals(refusal: Refusal) -> Iterator[Tree]:
    waiting = [refusal]
    for _ in range(ROWS):
        if not waiting:
            return
        each = waiting.pop(0)
        yield Tree(
            line(strong(printable(each.text, _WIDE)), Span("  is missing", Style.REMOVED)),
            tuple(_reasons(each)),
        )
        waiting.extend(each.causes)


def _reasons(refusal: Refusal) -> Iterator[Tree]:
    if refusal.is_input:
        yield Tree(line("it is not an input fact"))
    for note in refusal.notes[:ROWS]:
        yield Tree(line(printable(note, _WIDE)))
    for attempt in refusal.attempts[:ROWS]:
        head = (muted(f"{printable(attempt.place, _WIDE)}: "), *rule_line(attempt.rule))
        yield Tree(head, tuple(_matches(attempt.matches)))


def _matches(matches: tuple[Match, ...]) -> Iterator[Tree]:
    for at, match in enumerate(matches[:ROWS]):
        if at:
            yield Tree(line(muted("or")))
        for part in match.parts:
            detail = f"  {printable(part.detail, _WIDE)}" if part.detail else ""
            yield Tree(line(_MARKS[part.status], printable(part.text, _WIDE), muted(detail)))


def rule_line(rule: str) -> Line:
    """Return the text of a rule in colours, on one line."""
    text = " ".join(rule.split())
    return highlighted(text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}...")[0]
