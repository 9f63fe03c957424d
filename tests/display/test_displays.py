"""Displays in notebooks and on terminals: contents, escaping, size, and missing programs."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter

import dbsp
from dbsp import Circuit, Schema, ZSet, col
from dbsp.compiler.datalog.text.highlighting import highlighted
from dbsp.compiler.why.proof import Premise, Proof, ProofStep
from dbsp.display.displayed import Displayed
from dbsp.display.document import Document, Style, printable, value_span
from dbsp.errors import DbspError, SetupError
from tests.display.support import REACH, html_of, on_terminal, reach, read, shop, text_of, values

NAMES = list(values())
EVIL = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[Any, list[str]]]:
    return values()


@pytest.mark.parametrize("name", NAMES)
def test_the_contents(name: str, shown: dict[str, tuple[Any, list[str]]]) -> None:
    value, expected = shown[name]
    text = text_of(value)
    assert [part for part in expected if part not in text] == []
    bundle = value._repr_mimebundle_()
    assert bundle["text/plain"] == str(value)
    assert bundle["text/html"] == value._repr_html_()


@pytest.mark.parametrize("name", NAMES)
def test_the_terminal_shows_the_same(name: str, shown: dict[str, tuple[Any, list[str]]]) -> None:
    value, expected = shown[name]
    text = on_terminal(value)
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_display_is_markup_without_identifiers_and_scripts(
    name: str, shown: dict[str, tuple[Any, list[str]]]
) -> None:
    elements = read(html_of(shown[name][0])).elements
    assert [tag for tag, _ in elements if tag in ("script", "iframe", "img", "link")] == []
    assert [tag for tag, attributes in elements if "id" in attributes] == []


def test_equal_values_have_equal_displays() -> None:
    first, second = values(), values()
    for name in NAMES:
        if name not in ("tick", "statistics", "replanned"):  # they show a duration
            assert html_of(first[name][0]) == html_of(second[name][0]), name


def test_ipython_takes_the_display() -> None:
    data, _ = DisplayFormatter().format(shop())
    assert set(data) == {"text/plain", "text/html", "image/svg+xml"}
    assert data["text/plain"] == "<circuit 'shop': 3 nodes>"


def test_only_the_requested_forms_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = shop()
    assert set(circuit._repr_mimebundle_(include={"text/html"})) == {"text/html"}
    assert set(circuit._repr_mimebundle_(exclude={"text/html"})) == {"text/plain", "image/svg+xml"}
    monkeypatch.setattr("dbsp.circuit.graph_display.render", None)  # a call would raise TypeError
    assert set(circuit._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}


# --- Z-sets ---------------------------------------------------------------------------------------


def styles(value: Any) -> list[str | None]:
    """The classes of the rows of the only table."""
    return [attributes.get("class") for tag, attributes in read(html_of(value)).elements if tag == "tr"][1:]


def test_additions_and_retractions_are_coloured() -> None:
    zset = ZSet({(1,): 3, (2,): -2, (3,): 1})
    assert styles(zset) == ["dbsp-added", "dbsp-removed", "dbsp-added"]
    assert styles(ZSet([(1,), (2,)])) == [None, None]  # a relation, not a change
    run = shop().start()
    assert styles(run.step({"sale": [(1, "tea", 7.5)]})) == ["dbsp-added"]
    html = html_of(zset)
    assert 'class="dbsp-right dbsp-s-added">+3<' in html and 'class="dbsp-right dbsp-s-removed">-2<' in html


def test_the_weights_of_a_view_are_numbers_of_copies() -> None:
    run = shop().start()
    run.step({"sale": {(1, "tea", 7.5): 2, (2, "pen", 9.0): -1}})
    html = html_of(run.view("big"))
    assert '<td class="dbsp-right">2</td>' in html  # without a sign and a colour
    assert '<td class="dbsp-right dbsp-s-removed">-1</td>' in html
    assert styles(run.view("big")) == [None, None]


def test_the_header_has_names_types_and_keys() -> None:
    html = html_of(ZSet([(1, "a", 2.5)], {"x": int, "s": str | None, "f": float}).index_by("s"))
    assert '<th class="dbsp-key">s<small>str?</small></th>' in html
    assert '<th class="dbsp-right">f<small>float</small></th>' in html


@pytest.mark.parametrize("number", [20, 21, 1_000, 1_001])
def test_the_first_rows_are_shown(number: int) -> None:
    zset = ZSet([(f"row {at:05}",) for at in reversed(range(number))], {"s": str})
    text = text_of(zset)
    assert text.count("row 0") == 20
    assert ("more rows" in text) == (number > 20)
    if number == 1_000:
        assert "row 00000" in text and "and 980 more rows" in text  # sorted by value


def test_a_large_zset_costs_only_the_rows_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    zset = ZSet.from_numpy(np.arange(2_000_000).reshape(-1, 2))
    decoded = []
    decode = Schema.decode_rows

    def counting(self: Schema, rows: Any, interner: Any) -> Any:
        decoded.append(len(rows))
        return decode(self, rows, interner)

    monkeypatch.setattr(Schema, "decode_rows", counting)
    html = html_of(zset)
    assert "and 999,980 more rows" in html and len(html) < 20_000
    assert decoded == [20, 10]  # of the table, and of the `repr`
    assert "and 999,980 more rows" in on_terminal(zset)


def test_wide_rows_and_long_values_are_cut() -> None:
    row = tuple("v" * 1_000 for _ in range(100))
    html = html_of(ZSet([row]))
    assert "v" * 77 + "..." in html and "v" * 78 not in html
    assert "and 70 more columns" in html and len(html) < 20_000
    assert "and 70 more columns" in text_of(ZSet([row]).schema)


def test_dates_and_similar_values_are_shown_as_they_are_written() -> None:
    row = (
        dt.date(2026, 1, 31),
        dt.datetime(2026, 1, 31, 12, 30),
        dt.timedelta(hours=1),
        Decimal("1.50"),
        UUID(int=5),
        b"x",
        2.0,
        True,
    )
    line = on_terminal(ZSet([row])).splitlines()[4].split("  ")
    assert [cell.strip() for cell in line if cell] == [
        "2026-01-31",
        "2026-01-31 12:30:00",
        "1:00:00",
        "1.50",
        "00000000-0000-0000-0000-000000000005",
        "b'x'",
        "2.0",
        "True",
        "+1",
    ]


def test_zsets_without_rows_or_columns() -> None:
    assert "no rows" in text_of(ZSet.empty({"x": int}))
    assert "+3" in text_of(ZSet({(): 3}, {}))


def test_values_are_escaped() -> None:
    zset = ZSet([(EVIL, "a\nb\x00\u202e", "\ud800")], {EVIL: str, "c": str, "d": str})
    html = html_of(zset)
    assert "<script" not in html
    assert text_of(zset).count(EVIL) == 2
    assert r"a\nb\x00\u202e" in html and r"\ud800" in html
    html.encode()
    assert EVIL in on_terminal(zset)


def test_every_text_of_the_caller_is_escaped() -> None:
    circuit = Circuit(EVIL)
    with circuit.at(EVIL):
        stream = circuit.input(EVIL, schema={EVIL: str})
        circuit.output(EVIL, stream)
    run = circuit.start()
    result = run.step({EVIL: [(EVIL,)]})
    program = dbsp.compile(f"// {EVIL}\n.decl e(x: symbol) .input e .output e\n")
    program_run = program.start({"e": [(EVIL,)]})
    proof = program.why(program_run, "e", (EVIL,))
    refusal = program.why_not(program_run, "e", (EVIL + "!",))
    reason = program.why_changed(program_run, "e", (EVIL,))
    for value in (
        circuit, stream, stream.schema, run, run.input(EVIL), result, program, proof, refusal,
        reason, col(EVIL) == EVIL, circuit.explain(),
    ):  # fmt: skip
        assert "<script" not in html_of(value), value
        assert "script" in html_of(value), value
        assert "script" in on_terminal(value), value


def test_terminal_markup_in_values_is_text() -> None:
    assert "[bold]x[/bold]" in on_terminal(ZSet([("[bold]x[/bold]",)]))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __hash__(self) -> int:
        return 1


def test_a_value_whose_repr_raises_is_shown_by_its_class() -> None:
    zset = ZSet([(Unprintable(), 1)], {"o": object, "x": int})
    assert "<Unprintable>" in text_of(zset)
    assert zset._repr_mimebundle_()["text/plain"] == "<ZSet>"
    assert "<Unprintable>" in on_terminal(zset)


def test_a_display_shows_an_error_of_dbsp() -> None:
    class Broken(Displayed):
        def __repr__(self) -> str:
            return "<broken>"

        def _display(self) -> Document:
            raise DbspError("the state is <gone>")

    assert "the state is &lt;gone&gt;" in html_of(Broken())
    assert "the state is <gone>" in on_terminal(Broken())


# --- circuits -------------------------------------------------------------------------------------


def test_a_circuit_is_a_picture() -> None:
    bundle = shop()._repr_mimebundle_()
    assert bundle["image/svg+xml"].lstrip().startswith("<?xml")
    html = bundle["text/html"]
    assert "<svg" in html and "<?xml" not in html and "<title>" not in html


def test_a_picture_of_a_run_has_the_sizes_of_its_traces() -> None:
    _, run = reach()
    assert "2 rows, 48 bytes" in text_of(run)
    assert "2 rows, 48 bytes" in dbsp.draw.to_dot(run)
    assert "bytes" not in dbsp.draw.to_dot(run.graph)


def test_a_circuit_without_graphviz_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(SetupError):
        dbsp.draw.to_svg(shop())
    bundle = shop()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    text = text_of(shop())
    assert "pip install" in text
    assert '1  Filter col("price") > 5.0 (0): (id: int, item: str?, price: float)  [shop.py:1]' in text
    assert "Arrange by" in text_of(reach()[1])


def test_a_large_circuit_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = Circuit("long")
    stream = circuit.input("a", x=int)
    for number in range(400):
        stream = stream.filter(col("x") > number)
    circuit.output("out", stream)
    monkeypatch.setattr("dbsp.circuit.graph_display.render", None)  # a call would raise TypeError
    text = text_of(circuit)
    assert "more than 150 nodes" in text and "... and 342 more lines" in text
    assert len(html_of(circuit)) < 20_000


# --- ticks and runs -------------------------------------------------------------------------------


def test_a_tick_shows_the_changed_outputs() -> None:
    circuit = Circuit("many")
    a, b = circuit.input("a", x=int, kind="set"), circuit.input("b", x=int)
    for number in range(15):
        circuit.output(f"out {number}", a)
    circuit.output("other", b)
    run = circuit.start()
    text = text_of(run.step({"a": [(x,) for x in range(100)]}))
    assert text.count("+100") == 12 and "and 3 more changed outputs" in text and "not changed: other" in text
    assert text.count("and 90 more rows") == 12
    repeated = text_of(run.step({"a": {(1,): 1, (200,): -1}}))
    assert "no output changed" in repeated
    assert "input a: 1 assertion of a present row" in repeated
    assert "input a: 1 retraction of an absent row" in repeated


def test_a_run_shows_the_rows_that_it_stores() -> None:
    circuit = Circuit("stock")
    kept, passed = circuit.input("kept", x=int, kind="set"), circuit.input("passed", x=int)
    circuit.output("out", kept)
    passed.inspect(lambda delta: None)
    run = circuit.start()
    run.step({"kept": [(1,), (2,)], "passed": [(1,)]})
    rows = [line.split() for line in on_terminal(run).splitlines()[:6]]
    assert ["input", "kept", "x:", "int", "2"] in rows
    assert ["input", "passed", "x:", "int", "not", "kept"] in rows
    assert ["output", "out", "x:", "int", "2"] in rows


def test_the_slowest_nodes_of_the_statistics_are_shown() -> None:
    circuit = Circuit("long")
    stream = circuit.input("a", x=int)
    for number in range(30):
        stream = stream.inspect(lambda delta: None).map(x=col("x") + number)
    circuit.output("out", stream)
    run = circuit.start()
    run.observe()
    run.step({"a": [(1,), (2,)]})
    for stats, seconds in zip(run.stats(), range(100), strict=False):
        stats.seconds = float(seconds)
    lines = on_terminal(run.stats()).splitlines()
    assert lines[3].split()[-2:] == [f"{len(run.stats()) - 1}.00", "s"]
    assert lines[-1] == f"and {len(run.stats()) - 20} faster nodes"
    assert run.stats()[0].rows_out == 2 and isinstance(run.stats(), list)


# --- programs, proofs, reports --------------------------------------------------------------------


def test_program_text_is_coloured() -> None:
    html = html_of(dbsp.compile(REACH))
    assert '<span class="dbsp-s-comment">// who reaches whom</span>' in html
    assert '<span class="dbsp-s-keyword">.decl</span> <span class="dbsp-s-name">edge</span>(x' in html


def test_the_lines_of_a_program_have_their_numbers() -> None:
    program = dbsp.compile("\n\n    .decl e(x: number)\n    .input e\n\n      .output e\n  ")
    assert text_of(program).splitlines()[3:7] == [
        "3  .decl e(x: number)",
        "4  .input e",
        "5  ",
        "6    .output e",
    ]


def test_a_circuit_that_is_not_complete_is_drawn() -> None:
    circuit = Circuit("open")
    end = circuit.feedback({"x": int})
    assert "Delay" in text_of(circuit) and "stream of Delay" in text_of(end)
    with circuit.fixpoint("loop") as scope:
        variable = scope.variable("v", Schema.of(x=int))
        assert "stream of Delay v" in text_of(variable)
        scope.define(variable, (end + variable).distinct())
    assert "Fixpoint loop" in text_of(circuit)


def test_a_run_is_shown_inside_a_tick() -> None:
    def look(row: Any) -> Any:
        seen.append(text_of(run))
        return row

    seen: list[str] = []
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", x=int).map(look, {"x": int}))
    run = circuit.start()
    run.step({"a": [(1,)]})
    assert "run of c" in seen[0] and "0 ticks" in seen[0]


@given(st.text(st.sampled_from('ab1"\\/* \n.:-(){}#!=')) | st.text())
def test_colours_do_not_change_a_text(text: str) -> None:
    lines = ["".join(span.text for span in line) for line in highlighted(text)]
    assert lines == [printable(line) for line in text.split("\n")]


def test_the_parts_of_a_program_text() -> None:
    (line,) = highlighted('p("a//b", 0x1F) :- q(_), !r(2), n = count : { q(_) }. // "c"')
    found = [(span.style, span.text) for span in line if span.style is not Style.PLAIN]
    assert found == [
        ("name", "p"), ("string", '"a//b"'), ("number", "0x1F"), ("keyword", ":-"), ("name", "q"),
        ("keyword", "!"), ("name", "r"), ("number", "2"), ("keyword", "count"), ("name", "q"),
        ("comment", '// "c"'),
    ]  # fmt: skip


def test_a_long_program_and_its_warnings() -> None:
    rules = "".join(f"r(x) :- e(x), x > {number}.\n" for number in range(200))
    program = dbsp.compile(f".decl e(x: number) .input e\n.decl r(x: number) .output r\n{rules}")
    assert "... and 122 more lines" in text_of(program)
    suspicious = dbsp.compile(
        ".decl e(x: number) .input e\n.decl r(x: number) .output r\nr(x) :- e(x), e(y)."
    )
    assert "1 warning" in text_of(suspicious)


def test_a_deep_proof_is_cut() -> None:
    program = dbsp.compile(REACH)
    chain = [(f"{at:03}", f"{at + 1:03}") for at in range(100)]
    run = program.start({"edge": chain})
    proof = program.why(run, "path", ("000", "100"))
    text = text_of(proof)
    assert "height 100" in text and "not shown" in text
    assert len(html_of(proof)) < 40_000 and "not shown" in on_terminal(proof)


def test_a_wide_proof_is_cut() -> None:
    def step(number: int, premises: tuple[Premise, ...]) -> ProofStep:
        return ProofStep(("r", (number,)), f"r({number})", 1, "r(x) :- e(x).", 1, "p.dl:1", premises)

    rows = [step(number, (Premise("constraint", "x > 0"),)) for number in range(1, 100_000)]
    root = step(0, tuple(Premise("row", row.text, row.key) for row in rows))
    proof = Proof(root.key, {row.key: row for row in (root, *rows)})
    html = html_of(proof)
    assert len(html) < 200_000 and "... and 99,799 more premises" in html


def test_a_report_is_text() -> None:
    program, run = reach()
    report = program.explain(run)
    assert isinstance(report, str) and report.splitlines()[0] == "inputs"
    assert report._repr_mimebundle_()["text/plain"] == report
    long = type(report)("\n".join(map(str, range(1_000))))
    assert "... and 500 more lines" in text_of(long)


def test_rows_that_a_subsumption_removed_are_shown() -> None:
    program = dbsp.compile("""
        .decl offer(item: symbol, price: number) .input offer
        .decl best(item: symbol, price: number) .output best
        best(i, p) :- offer(i, p).
        best(i, p) <= best(i, q) :- q < p.
    """)
    run = program.start({"offer": [("tea", 4), ("tea", 3)]})
    proof = text_of(program.why(run, "best", ("tea", 3)))
    assert "subsumes by" in proof and 'best("tea", 4)' in proof
    assert "subsumed by" in text_of(program.why_not(run, "best", ("tea", 4)))


def test_times_and_decimals_are_shown_without_their_classes() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, tzinfo=dt.UTC)
    values = (moment.date(), moment.time(), moment, dt.timedelta(hours=30), Decimal("1.50"))
    cells = [value_span(value).text for value in values]
    assert cells == ["2024-05-06", "07:08:00", "2024-05-06 07:08:00+00:00", "1 day, 6:00:00", "1.50"]
