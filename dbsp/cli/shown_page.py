"""The end of a command that serves a page: print its address, and wait for Ctrl-C."""

from __future__ import annotations

from typing import Protocol

import typer


class ServedPage(Protocol):
    """A page that a thread serves."""

    @property
    def url(self) -> str: ...

    def wait(self) -> None: ...


def show(page: ServedPage, in_browser: bool) -> None:
    """Print the address of a page, open it in a browser if wanted, and wait until Ctrl-C."""
    print(f"the page is {page.url}\nCtrl-C ends it", flush=True)
    if in_browser:
        typer.launch(page.url)
    try:
        page.wait()
    except KeyboardInterrupt:
        print()
