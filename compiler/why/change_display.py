"""Displays of reasons: trees of the changed rows and the rules that use them."""

from __future__ import annotations

from dbsp.compiler.why.change_reason import ChangeReason, Drawing, Part
from dbsp.compiler.why.proof import DEPTH
from dbsp.compiler.why.why_display import ROWS, proof_document, refusal_document
from dbsp.display.document import Document, Line, Span, Style, Tree, line, muted, printable, strong
from dbsp.errors import counted

_WIDE = 200
_STYLES = {"inserted": Style.ADDED, "retracted": Style.REMOVED}


def change_document(reason: ChangeReason) -> Document:
    """Return the display of a reason, at most `DEPTH` rules deep and of at most `ROWS` rows."""
    cited = sum(map(len, reason.changes.values()))
    size = f"  by {counted(cited, 'input change')}" if reason.steps else ""
    headline = Span(f"  {reason.headline}", _STYLES.get(reason.change, Style.MUTED))
    title = line(strong(printable(reason.text, _WIDE)), headline, muted(size))
    if reason.steps:
        return Document(title, (_Trees(reason).tree(reason.steps[reason.goal], 0),))
    if reason.proof is not None:
        return Document(title, proof_document(reason.proof).blocks)
    if reason.refusal is not None:
        return Document(title, refusal_document(reason.refusal).blocks)
    return Document(title, ())


class _Trees:
    """The trees of a reason; at most `ROWS` parts."""

    def __init__(self, reason: ChangeReason) -> None:
        self._drawing = Drawing(reason, DEPTH)
        self._left = ROWS

    def tree(self, part: Part, level: int) -> Tree:
        self._left -= 1
        (first, *rule), below = self._drawing.expanded(part, level)
        trees = [Tree(line(muted(printable(text, _WIDE)))) for text in rule]
        for child, child_level in below:
            if self._left <= 0:
                trees.append(Tree(line(muted("... more is not shown"))))
                break
            trees.append(self.tree(child, child_level))
        return Tree(_styled(first), tuple(trees))


def _styled(text: str) -> Line:
    """Return a line with the change of its row in colour."""
    shown, _, remark = printable(text, _WIDE).partition("   ")
    if not remark:
        return line(shown)
    style = next((style for word, style in _STYLES.items() if word in remark), Style.MUTED)
    return line(shown, Span(f"  {remark}", style))
