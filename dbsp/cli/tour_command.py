"""`dbsp tour`: lessons about five small circuits, in the inspector."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """Examples:

dbsp tour --open
    opens the first lesson in a browser"""


def tour(
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port; 0 is a free one.")
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """See how DBSP works: lessons about five small circuits, in a local web page, until Ctrl-C.

    The lessons are about a filter, a join, distinct, a recursion, and a join of three relations at
    once. Each has ten rows, and ticks to apply one by one; every stream can be looked at.
    """
    from dbsp.inspector.tour import Tour

    with Tour(port) as pages:
        print(f"the page is {pages.url}\nCtrl-C ends it", flush=True)
        if open_page:
            typer.launch(pages.url)
        try:
            pages.wait()
        except KeyboardInterrupt:
            print()
