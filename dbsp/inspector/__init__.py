"""The inspector: a local web page that shows a running circuit and steps it.

`serve` starts the page for a run; `dbsp inspect` does so for a program file. The page needs the
extra `inspect`: `pip install dbsp-circuits[inspect]`.
"""

from __future__ import annotations

from dbsp.inspector.inspector import Inspector, serve

__all__ = ["Inspector", "serve"]
