"""`dbsp tour`: lessons about five small circuits, in the inspector."""

from __future__ import annotations

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp tour --open
    opens the first lesson in a browser"""


def tour(
    *,
    port: options.Port = 0,
    open_page: options.OpenPage = False,
) -> None:
    """See how DBSP works: lessons about five small circuits, in a local web page, until Ctrl-C.

    The lessons are about a filter, a join, distinct, a recursion, and a join of three relations at
    once. Each has ten rows, and ticks to apply one by one; every stream can be looked at.
    """
    from dbsp.cli.shown_page import show
    from dbsp.inspector.tour import Tour

    with Tour(port) as pages:
        show(pages, open_page)
