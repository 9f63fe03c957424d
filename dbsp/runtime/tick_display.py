"""The display of the result of a tick: the changes of every output."""

from __future__ import annotations

from collections.abc import Iterator

from dbsp.data.zset import ZSet
from dbsp.data.zset_display import zset_table
from dbsp.display.amounts import duration
from dbsp.display.document import Block, Document, Note, Section, Span, Style, line, muted, printable, strong
from dbsp.errors import counted
from dbsp.runtime.tick_result import TickResult

SHOWN_ROWS = 10
SHOWN_OUTPUTS = 12


def tick_document(result: TickResult) -> Document:
    """Return the display of a tick: the changed outputs, with the first rows of their deltas."""
    title = line(strong(f"tick {result.number:,}"), muted(f"  {duration(result.seconds)}"))
    return Document(title, tuple(_blocks(result)))


def _blocks(result: TickResult) -> Iterator[Block]:
    changed = [name for name, delta in result.items() if delta]
    for name in changed[:SHOWN_OUTPUTS]:
        delta = result[name]
        table = zset_table(delta, SHOWN_ROWS, changes=True)
        yield Section(line(strong(printable(name, 80)), "  ", *_counts(delta)), (table,))
    if len(changed) > SHOWN_OUTPUTS:
        yield Note(f"and {len(changed) - SHOWN_OUTPUTS:,} more changed outputs")
    unchanged = [name for name, delta in result.items() if not delta]
    if not changed:
        yield Note("no output changed")
    elif unchanged:
        names = ", ".join(unchanged[:SHOWN_OUTPUTS])
        more = len(unchanged) - SHOWN_OUTPUTS
        yield Note(f"not changed: {printable(names, 400)}{f' and {more:,} more' if more > 0 else ''}")
    for change, what, ignored in (
        ("retraction", "an absent row", result.absent),
        ("assertion", "a present row", result.present),
    ):
        for name, number in ignored.items():
            yield Note(f"input {printable(name, 80)}: {counted(number, change)} of {what} changed nothing")


def _counts(delta: ZSet) -> Iterator[Span]:
    """Yield the numbers of added and of retracted rows. O(rows), without decoding them."""
    added = int((delta.stored.weights > 0).sum())
    removed = len(delta) - added
    if added:
        yield Span(f"+{added:,} ", Style.ADDED)
    if removed:
        yield Span(f"-{removed:,}", Style.REMOVED)
