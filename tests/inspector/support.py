"""A small program, a run with a page, and requests to its server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import dbsp
from dbsp.inspector import Inspector, serve
from dbsp.io.change_script import ScriptTick

REACH = """\
.decl edge(x: number, y: number)
.input edge
.decl label(x: number, text: symbol)
.input label
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl size(text: symbol, n: number)
.output size
size(text, n) :- label(x, text), n = count : { path(x, _) }.
"""
FACTS = {"edge": [(1, 2), (2, 3)], "label": [(1, "one"), (3, "three")]}
SCRIPT = (
    ScriptTick(1, 2, {"edge": {(3, 4): 1}}),
    ScriptTick(3, 4, {"edge": {(1, 2): -1}}),
)


class Page:
    """Requests of a page."""

    def __init__(self, inspector: Inspector) -> None:
        self.inspector = inspector
        self.path = urlsplit(inspector.url).path

    def request(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        """Send a request, with exactly this path; return the status, the text and the headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.inspector.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read().decode(), dict(response.getheaders())
        finally:
            connection.close()

    def get(self, name: str, **query: Any) -> Any:
        """Request something as the page does."""
        status, text, _ = self.request("GET", f"{self.path}api/{name}?{urlencode(query)}")
        assert status == 200, text
        return json.loads(text)

    def step(self, **body: Any) -> Any:
        """Request a tick as the page does."""
        status, text, _ = self.request("POST", f"{self.path}api/step", json.dumps(body))
        assert status == 200, text
        return json.loads(text)

    def box(self, title: str) -> str:
        """Return the id of the first box with this title."""
        return next(node["id"] for node in self.get("circuit")["nodes"] if node["title"] == title)


@contextmanager
def reach_page(**options: Any) -> Iterator[Page]:
    """Serve a run of the program with its facts."""
    program = dbsp.compile(REACH)
    with serve(program.start(FACTS), program, **{"script": SCRIPT, **options}) as inspector:
        yield Page(inspector)


def shown(page: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    """Return the rows of a page with their weights."""
    return {tuple(row["cells"]): int(row["weight"]) for row in page["rows"]}


def literals(zset: dbsp.ZSet) -> dict[tuple[str, ...], int]:
    """Return the rows of a Z-set as the page shows them."""
    from dbsp.io.results import literal_of

    return {tuple(map(literal_of, row)): weight for row, weight in zset.items()}
