"""Reports: text that a notebook shows as lines, and not as the `repr` of a string."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.display.displayed import Displayed

if TYPE_CHECKING:
    from dbsp.display.document import Document

LINES = 500
"""The number of lines that a display shows."""


class Report(str, Displayed):
    """The text of a report, such as that of `Program.explain`; a string in every respect."""

    __slots__ = ()

    def _display(self) -> Document:
        from dbsp.display.document import Document, code_of

        return Document((), (code_of(str(self), LINES),))
