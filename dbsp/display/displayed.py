"""The base of classes whose values have a display in notebooks and on terminals."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from dbsp.errors import DbspError

if TYPE_CHECKING:
    from dbsp.display.document import Document


class Displayed:
    """A value that IPython and Jupyter show as HTML, and `rich` as a table or a tree.

    A class names the function that describes its values, or defines `_display`. `repr` stays short,
    and is the plain text of the display unless the class has a `__str__` of its own. A display
    never raises an error of dbsp: it shows the message instead.
    """

    __slots__ = ()

    _described_by: ClassVar[str]
    """The function that describes a value, as "module:function". It is named, not imported: its
    module imports the class, and is loaded with the first display only."""

    def _display(self) -> Document:
        """Return the display of this value; its size is bounded, whatever the size of the value."""
        module, _, function = self._described_by.partition(":")
        document: Document = getattr(import_module(module), function)(self)
        return document

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the forms of the display by MIME type, for IPython."""
        from dbsp.display.html_form import to_html

        document = _document_of(self)
        forms: dict[str, Callable[[], str | None]] = {
            "text/plain": lambda: _text_of(self),
            "text/html": lambda: to_html(document),
        }
        for picture in document.pictures():
            forms["image/svg+xml"] = lambda picture=picture: picture.drawn[0]  # type: ignore[misc]
        bundle = {}
        for kind, form in forms.items():
            if (include is None or kind in include) and kind not in (exclude or ()):
                shown = form()
                if shown is not None:
                    bundle[kind] = shown
        return bundle

    def _repr_html_(self) -> str:
        """Return the display as HTML, for tools that know no MIME types."""
        from dbsp.display.html_form import to_html

        return to_html(_document_of(self))

    def __rich__(self) -> Any:
        """Return the display as an object of `rich`."""
        from dbsp.display.rich_form import to_rich

        return to_rich(_document_of(self))


def _document_of(value: Displayed) -> Document:
    from dbsp.display.document import Document, Note, line, printable

    try:
        return value._display()
    except DbspError as error:
        return Document(line(printable(_text_of(value), 200)), (Note(error.message),))


def _text_of(value: Displayed) -> str:
    try:
        return str(value)
    except Exception:  # any code of the caller, such as the `repr` of an object in a row
        return f"<{type(value).__name__}>"
