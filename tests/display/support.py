"""Reading displays: the text of HTML and of a terminal, and one value of every class."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from typing import Any

from rich.console import Console

import dbsp
from dbsp import Circuit, Program, Run, ZSet, col

REACH = """\
// who reaches whom
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def shop() -> Circuit:
    circuit = Circuit("shop")
    with circuit.at("shop.py:1"):
        sale = circuit.input("sale", id=int, item=str | None, price=float)
        circuit.output("big", sale.filter(col("price") > 5.0))
    return circuit


def reach() -> tuple[Program, Run]:
    program = dbsp.compile(REACH)
    return program, program.start({"edge": [("a", "b"), ("b", "c")]})


def values() -> dict[str, tuple[Any, list[str]]]:
    """One value of every class that has a display, with texts that its display shows."""
    program, run = reach()
    shop_run = shop().start()
    result = shop_run.step({"sale": [(1, "tea", 7.5), (2, None, 12.0), (3, "pen", 1.0)]})
    stream = Circuit("c").input("a", x=int)
    run.observe()
    run.step({"edge": [("c", "a")]})
    run.step({"edge": {("c", "a"): -1}})
    proof = program.why(run, "path", ("a", "c"))
    shop_run.input("sale").insert([(4, "bag", 40.0)])
    return {
        "circuit": (shop(), ["circuit shop", "3 nodes", "Input sale", "Filter ", "> 5.0"]),
        "graph": (shop().circuit("physical"), ["circuit shop", "Output big"]),
        "program": (program, ["2 rules", "// who reaches whom", "input", "edge", "x: str, y: str"]),
        "run": (run, ["run of <program>", "3 ticks, ", "stored", "path", "traces", "Arrange by"]),
        "tick": (result, ["tick 1", "big", "+2", "tea", "7.5", "None", "float", "str?"]),
        "zset": (
            ZSet({(1, "a"): 2, (2, "b"): -1}, {"id": int, "s": str}),
            ["id", "int", "s", "str", "+2", "-1", "2 rows"],
        ),
        "view": (run.view("path"), ["view", "3 rows", "weight", "1"]),
        "index": (ZSet([(1, 2)], {"x": int, "y": int}).index_by("y"), ["1 row", "x", "y"]),
        "proof": (proof, ["proof of", 'path("a", "c")', "height 2", "input fact", "<program>:7"]),
        "refusal": (
            program.why_not(run, "path", ("c", "a")),
            ["why not", 'path("c", "a")', "is missing", "path(x, z) :- path(x, y), edge(y, z)."],
        ),
        "reason": (
            program.why_changed(run, "path", ("c", "b")),
            ['path("c", "b")', "retracted in tick 3", "by 1 input change", 'edge("c", "a")'],
        ),
        "report": (program.explain(run), ["stratum 1 (path)", "1. scan edge(x, y)"]),
        "circuit report": (shop().explain(), ["passes", "trace of Filter"]),
        "stream": (stream, ["stream of Input a", "circuit c", "x", "int"]),
        "schema": (stream.schema, ["1 column", "x", "int"]),
        "input": (shop_run.input("sale"), ["input sale", "1 row staged", "price", "float"]),
        "expression": ((col("x") + 1) * col("y"), ['(col("x") + 1) * col("y")', "reads x, y"]),
        "statistics": (run.stats(), ["statistics", "Input edge", "<program>:2:7", "steps", "rows"]),
        "replanned": (run.replan(), ["0 traces kept"]),
    }


class _Reader(HTMLParser):
    """Collects the text and the elements; fails for an element that is not closed."""

    _EMPTY = ("br", "meta", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self._EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def read(html: str) -> _Reader:
    """Parse the HTML of a display."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def html_of(value: Any) -> str:
    bundle: dict[str, str] = value._repr_mimebundle_()
    return bundle["text/html"]


def text_of(value: Any) -> str:
    """The text that a notebook shows."""
    return "".join(read(html_of(value)).texts).replace("\xa0", " ")


def on_terminal(value: Any, width: int = 200) -> str:
    """The text that `rich.print` shows."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(value)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()
