"""Lattice columns against algorithms that do not iterate rules, and against recomputation."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from math import gcd
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Branch, Circuit, Program
from dbsp.cli import main
from dbsp.errors import CircuitError, IterationLimitError, UserFunctionError
from dbsp.operators.streams.circuit_reader import from_json
from tests.live_program import Change, Subject
from tests.profiles import examples
from tests.proof_checker import check_proof
from tests.reference import Row
from tests.reference_datalog.evaluation import evaluate

SHORTEST = """
.decl edge(x: number, y: number, w: number)
.decl source(x: number)
.input edge, source
.decl dist(x: number, d: number<min>)
dist(x, 0) :- source(x).
dist(y, d + w) :- dist(x, d), edge(x, y, w).
.output dist
"""


def dijkstra(edges: set[Row], source: int) -> dict[int, int]:
    following: dict[int, list[tuple[int, int]]] = {}
    for x, y, w in edges:
        following.setdefault(x, []).append((y, w))
    found: dict[int, int] = {}
    waiting = [(0, source)]
    while waiting:
        d, x = heappop(waiting)
        if x not in found:
            found[x] = d
            for y, w in following.get(x, ()):
                heappush(waiting, (d + w, y))
    return found


@pytest.mark.parametrize("recursion", ["auto", "incremental"])
def test_shortest_paths_equal_dijkstra(recursion: str) -> None:
    """Edges are deleted and inserted, some with weight 0; one tick in six replaces many."""
    draw = random.Random(4)
    run = dbsp.compile(SHORTEST, recursion=recursion).start()
    edges = {(draw.randrange(60), draw.randrange(60), draw.choice([0, 1, 3, 8, 20])) for _ in range(150)}
    run.step({"edge": dict.fromkeys(edges, 1), "source": [(0,)]})
    for tick in range(40):
        assert dict(run.view("dist").rows()) == dijkstra(edges, 0)
        changed = {draw.choice(sorted(edges)) for _ in range(40 if tick % 6 == 5 else 2)}
        changed |= {(draw.randrange(60), draw.randrange(60), draw.randrange(20)) for _ in changed}
        run.step({"edge": {edge: -1 if edge in edges else 1 for edge in changed}})
        edges ^= changed


TOP = Branch("Top")

CONSTANTS = """
.type Value = Top {} | Known { n: number }
.functor add(a: Value<flat>, b: Value<flat>): Value<flat>
.decl assign(at: number, to: symbol, n: number)
.decl plus(at: number, to: symbol, a: symbol, b: symbol)
.decl flow(from: number, to: number)
.input assign, plus, flow
.decl changes(at: number, v: symbol)
changes(p, v) :- assign(p, v, _); plus(p, v, _, _).
.decl after(at: number, v: symbol, value: Value<flat>)
after(p, v, $Known(n)) :- assign(p, v, n).
after(p, v, @add(x, y)) :- plus(p, v, a, b), before(p, a, x), before(p, b, y).
after(p, v, x) :- before(p, v, x), !changes(p, v).
.decl before(at: number, v: symbol, value: Value<flat>)
before(q, v, x) :- flow(p, q), after(p, v, x).
.output after
"""


def plus(a: Branch, b: Branch) -> Branch:
    return TOP if TOP in (a, b) else Branch("Known", (a.arguments[0] + b.arguments[0]) % 50)


def constants(
    assign: set[Row], sums: set[Row], flow: set[Row], draw: random.Random
) -> set[tuple[int, str, Branch]]:
    """Chaotic iteration: visit the points in random order until nothing changes."""
    after: dict[tuple[int, str], Branch] = {}
    points = sorted({p for p, *_ in assign | sums} | {p for pair in flow for p in pair})
    changed = True
    while changed:
        changed = False
        for point in draw.sample(points, len(points)):
            before: dict[str, Branch] = {}
            for p, q in flow:
                if q == point:
                    for (at, v), x in after.items():
                        if at == p:
                            before[v] = x if before.get(v, x) == x else TOP
            values = [(v, x) for v, x in before.items() if not written(point, v, assign, sums)]
            values += [(v, Branch("Known", n)) for p, v, n in assign if p == point]
            values += [
                (v, plus(before[a], before[b]))
                for p, v, a, b in sums
                if p == point and a in before and b in before
            ]
            for v, x in values:
                new = x if after.get((point, v), x) == x else TOP
                changed |= after.get((point, v)) != new
                after[point, v] = new
    return {(p, v, x) for (p, v), x in after.items()}


def written(point: int, variable: str, assign: set[Row], sums: set[Row]) -> bool:
    return any(row[:2] == (point, variable) for row in assign | sums)


def test_constant_propagation_equals_chaotic_iteration() -> None:
    draw = random.Random(2)
    run = dbsp.compile(CONSTANTS, functors={"add": plus}).start()
    inputs: dict[str, set[Row]] = {"assign": set(), "plus": set(), "flow": set()}
    for _ in range(25):
        p, q = draw.randrange(12), draw.randrange(12)
        a, b, c = (draw.choice("xyz") for _ in range(3))
        rows: dict[str, Row] = {"assign": (p, a, draw.randrange(3)), "plus": (p, a, b, c), "flow": (p, q)}
        chosen = [name for name in rows for _ in range(2 if name == "flow" else 1)]
        change = {name: {rows[name]} for name in draw.sample(chosen, 2)}
        change["flow"] = change.get("flow", set()) | {(n, (n + draw.randrange(1, 3)) % 12) for n in (p, q)}
        run.step({n: {row: -1 if row in inputs[n] else 1 for row in rs} for n, rs in change.items()})
        for name, changed in change.items():
            inputs[name] ^= changed
        expected = constants(inputs["assign"], inputs["plus"], inputs["flow"], draw)
        assert set(run.view("after").rows()) == expected


# --- random programs ------------------------------------------------------------------------------

FUNCTORS = {"gcd": gcd, "twice": lambda v: 2 * v}

HEAD = """
.functor gcd(a: number<@gcd>, b: number<@gcd>): number<@gcd>
.functor twice(v: number<@gcd>): number<@gcd>
.type Seen = Top {} | Only { n: number }
.decl e(x: number, y: number, w: number)
.input e
.decl low(x: number, v: number<min>)
.decl high(x: number, y: number, v: number<max>)
.decl some(v: number<bor>, x: number)
.decl all(x: number, v: number<band>)
.decl part(x: number, v: number<@gcd>)
.decl seen(x: number, v: Seen<flat>)
.decl mark(x: number, y: number)
.decl last(x: number, a: number<min>, b: number<max>)
.output low, high, some, all, part, seen, mark, last
"""

RULES = """
low(x, w) :- e(x, _, w).
low(y, v + w) :- low(x, v), e(x, y, w).
low(y, max(v, w)) :- low(x, v), e(x, y, w), v <= 2.
low(x, 3 - v) :- high(x, _, v), v >= 1.
low(x, v / 2) :- last(x, v, _), low(x, u), u < 3.
high(x, y, w) :- e(x, y, w).
high(x, z, min(v, w)) :- high(x, y, v), high(y, z, w).
high(x, y, 2 - v) :- low(x, v), mark(x, y).
high(x, x, u) :- last(x, _, v), u = min(v * 2, 3), u > 0.
some(w, x) :- e(x, _, w).
some(v bor 1, y) :- some(v, x), e(x, y, _).
some((v bshl 1) band 7, y) :- some(v, x), mark(x, y).
some(5, x) :- low(x, v), v < 1.
all(x, w bor 4) :- e(_, x, w).
all(y, v band (w bor 2)) :- all(x, v), e(x, y, w).
all(x, bnot v) :- some(v, x), mark(x, _).
part(x, 12) :- e(x, _, _).
part(y, @gcd(v, w * 4)) :- part(x, v), e(x, y, w).
part(y, @twice(v)) :- part(x, v), mark(x, y).
seen(x, $Only(w)) :- e(x, _, w), w != 1.
seen(y, v) :- seen(x, v), e(x, y, 1).
seen(x, $Top()) :- seen(x, $Top()), mark(x, x).
mark(x, y) :- e(x, y, 0).
mark(x, y) :- low(x, v), e(x, y, _), v <= 0.
mark(x, y) :- seen(x, $Top()), e(y, x, _).
mark(x, y) :- high(x, y, v), low(y, u), u < v.
mark(x, x) :- part(x, _), e(x, x, _).
last(x, w, w) :- e(x, _, w).
last(y, min(a, v), max(b, w)) :- last(x, a, b), e(x, y, w), low(y, v).
""".strip().split("\n")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Some of the rules, most of them with others that they read."""
    chosen = draw(st.lists(st.sampled_from(RULES), min_size=3, max_size=9, unique=True))
    used = [rule for rule in RULES if rule.endswith("w).") and rule.split("(")[0] in "".join(chosen)]
    return "\n".join((HEAD, *dict.fromkeys([*chosen, *used[: draw(st.integers(1, 4))]])))


EDGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=4)


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(programs(), st.lists(EDGES, max_size=5), st.integers(1, 5))
def test_random_programs(text: str, ticks: list[list[Row]], size: int) -> None:
    """Each row is inserted and deleted by turns; the same changes are split into ticks twice."""
    subject = Subject(text, functors=FUNCTORS)
    present: set[Row] = set()
    changes: list[Change] = []
    live, again = subject.start(), subject.start()
    for rows in ticks:
        tick = [("e", row, -1 if row in present else 1) for row in dict.fromkeys(rows)]
        present ^= set(rows)
        live.tick(tick)
        changes += tick
    for start in range(0, len(changes), size):
        again.tick(changes[start : start + size])


def test_all_rules_together_are_one_recursion() -> None:
    program = dbsp.compile("\n".join((HEAD, *RULES)), functors=FUNCTORS)
    assert max(len(stratum.relations) for stratum in program.checked.strata) >= 5


# --- limits, faults, inputs -----------------------------------------------------------------------


def test_a_value_that_rises_for_ever_reaches_the_limit_of_iterations() -> None:
    text = SHORTEST.replace("min", "max")
    run = dbsp.compile(text).start(max_iterations=50)
    run.step({"edge": [(0, 1, 1), (1, 2, 1)], "source": [(0,)]})
    with pytest.raises(IterationLimitError, match="'dist' has not converged after 50 iterations"):
        run.step({"edge": [(2, 1, 1)]})
    assert run.view("dist").rows() == [(0, 0), (1, 1), (2, 2)]
    run.step({"edge": {(0, 1, 1): -1}})
    assert run.view("dist").rows() == [(0, 0)]


def failing() -> tuple[Program, dict[str, Any]]:
    state = {"fails": False}

    def join(a: int, b: int) -> int:
        if state["fails"]:
            raise RuntimeError("no join")
        return gcd(a, b)

    text = """
    .functor join(a: unsigned, b: unsigned): unsigned
    .lattice unsigned<> { Lub -> @join(_, _) }
    .decl e(x: number, y: number, w: unsigned)
    .input e
    .decl part(x: number, v: unsigned<>)
    part(x, w) :- e(x, _, w).
    part(y, v) :- part(x, v), e(x, y, _).
    .output part
    """
    return dbsp.compile(text, functors={"join": join}), state


def test_a_join_that_fails_rolls_the_tick_back() -> None:
    program, state = failing()
    run = program.start()
    run.step({"e": [(0, 1, 12), (1, 2, 8)]})
    assert run.view("part").rows() == [(0, 12), (1, 4), (2, 4)]
    state["fails"] = True
    with pytest.raises(UserFunctionError, match=r"function @join raised RuntimeError: no join for"):
        run.step({"e": {(2, 0, 9): 1, (1, 2, 8): -1}})
    assert run.view("part").rows() == [(0, 12), (1, 4), (2, 4)]
    state["fails"] = False
    run.step({"e": {(2, 0, 9): 1}})
    assert run.view("part").rows() == [(0, 1), (1, 1), (2, 1)]
    run.step({"e": {(2, 0, 9): -1, (0, 1, 12): -1}})
    assert run.view("part").rows() == [(1, 8), (2, 8)]


def test_the_range_of_the_type_holds_for_joins() -> None:
    text = """
    .functor less(a: unsigned, b: unsigned): unsigned
    .decl r(v: unsigned<@less>)
    .input r
    .output r
    """
    run = dbsp.compile(text, functors={"less": lambda a, b: min(a, b) - 3}).start()
    with pytest.raises(dbsp.DbspError, match=r"expected an unsigned number \(0 to 2\^63-1\), got -1"):
        run.step({"r": [(2,), (4,)]})


def test_joins_of_flat_lattices_and_of_functors_are_written_as_json(tmp_path: Path) -> None:
    text = """
    .type Value = Top {} | Known { n: number }
    .functor least(a: unsigned, b: unsigned): unsigned
    .decl set(x: symbol, n: number, u: unsigned)
    .decl r(x: symbol, v: Value<flat>, u: unsigned<@least>)
    .decl size(n: number)
    .input set
    .output r
    r(x, $Known(n), u) :- set(x, n, u).
    """
    functors = {"least": min}
    program = dbsp.compile(text, functors=functors)
    rows = {("a", 1, 5), ("a", 2, 3), ("b", 4, 6)}
    expected = [("a", Branch("Top"), 3), ("b", Branch("Known", 4), 6)]
    read = from_json(program.circuit().to_json(), functors=functors)
    assert isinstance(read, Circuit)
    assert read.start().step({"set": rows})["r"].rows() == expected
    with pytest.raises(CircuitError, match="the circuit calls the functor 'least', whose function is not in"):
        from_json(program.circuit().to_json())
    # A checkpoint writes the circuit of an update.
    run = program.start({"set": rows}, checkpoint=tmp_path)
    updated = dbsp.compile(text + "\n.output size\nsize(n) :- n = count : { r(_, _, _) }.", functors=functors)
    run.update(updated)
    assert run.log is not None
    run.log.close()
    run = updated.start(checkpoint=tmp_path)
    run.step({"set": {("a", 2, 3): -1}})
    assert run.view("r").rows() == [("a", Branch("Known", 1), 5), expected[1]]
    assert run.view("size").rows() == [(2,)]


def test_input_rows_of_one_key_are_joined() -> None:
    run = dbsp.compile("""
        .decl r(x: symbol, low: float<min>, name: symbol<max>)
        .input r
        .decl n(c: number)
        n(c) :- c = count : { r(_, _, _) }.
        .output r, n
    """).start()
    run.step({"r": [("a", 2.5, "p"), ("a", -1.0, "b"), ("b", 0.5, "z")]})
    assert run.view("r").rows() == [("a", -1.0, "p"), ("b", 0.5, "z")]
    assert run.view("n").rows() == [(2,)]
    delta = run.step({"r": {("a", -1.0, "b"): -1, ("b", 0.5, "z"): -1}})
    assert delta["r"].to_dict() == {("a", -1.0, "p"): -1, ("a", 2.5, "p"): 1, ("b", 0.5, "z"): -1}
    assert run.view("n").rows() == [(1,)]


def test_the_parts_of_a_lattice_may_be_those_of_souffle() -> None:
    """The declaration of a lattice in Soufflé; what has no effect here gives a warning."""
    text = """
    .type Sign = Bottom {} | Neg {} | Pos {} | Top {}
    .functor lub(a: Sign, b: Sign): Sign
    .functor glb(a: Sign, b: Sign): Sign
    .lattice Sign<> { Bottom -> $Bottom(), Lub -> @lub(_, _), Glb -> @glb(_, _) }
    .decl sign(x: symbol, n: number)
    .input sign
    .decl is(x: symbol, s: Sign<>)
    is(x, $Pos()) :- sign(x, n), n > 0.
    is(x, $Neg()) :- sign(x, n), n < 0.
    .output is
    """
    program = dbsp.compile(text, functors={"lub": lambda a, b: TOP, "glb": lambda a, b: a})
    (warning,) = program.warnings
    assert "'Bottom' and 'Glb' of the lattice of 'Sign' have no effect" in warning.message
    run = program.start({"sign": [("a", 1), ("a", -1), ("b", 4)]})
    assert run.view("is").rows() == [("a", TOP), ("b", Branch("Pos"))]


# --- reports --------------------------------------------------------------------------------------


def called(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_the_command_line_names_lattices(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.dl"
    path.write_text(SHORTEST)
    (tmp_path / "edge.facts").write_text("0\t1\t5\n0\t1\t3\n1\t2\t1\n")
    (tmp_path / "source.facts").write_text("0\n")
    called(["run", str(path), "-F", str(tmp_path), "-D", "-"])
    assert "0\t0\n1\t3\n2\t4\n" in capsys.readouterr().out
    called(["explain", str(path)])
    assert "  dist has one row for each (x): d is the least upper bound by min" in capsys.readouterr().out
    called(["explain", str(path), "--after", "parse"])
    assert ".decl dist(x: number, d: number<min>)" in capsys.readouterr().out
    called(["graph", str(path)])
    assert "Aggregate d = min(d) by x" in capsys.readouterr().out


BITS = """
.decl bits(x: number, m: number<bor>)
.output bits
bits(x, w) :- edge(x, _, w).
"""


def test_why_a_row_has_its_value() -> None:
    program = dbsp.compile(SHORTEST + BITS)
    edges = {(0, 1, 1), (1, 2, 2), (0, 2, 10), (2, 0, 0)}
    inputs: dict[str, set[Row]] = {"edge": set(edges), "source": {(0,)}}
    run = program.start(inputs)
    complete = {name: set(rows) for name, rows in evaluate(program.checked, inputs).items()}
    for name in ("dist", "bits"):
        for row in complete[name]:
            proof = program.why(run, name, row)
            assert proof is not None
            check_proof(program.checked, proof, inputs, complete)
    assert "is the least upper bound with\n      dist(2, 10)" in str(program.why(run, "dist", (2, 3)))
    assert str(program.why(run, "bits", (0, 11))) == (
        "bits(0, 11)   is the least upper bound of bits(0, 1), bits(0, 10)"
    )
    assert program.why(run, "dist", (2, 10)) is None
    refusal = str(program.why_not(run, "dist", (2, 10)))
    assert "dist(2, 10) is derived, but joined to dist(2, 3)   lattice column at <program>:5" in refusal
    run.step({"edge": {(1, 2, 2): -1}})
    reason = str(program.why_changed(run, "dist", (2, 10)))
    assert "dist(2, 10) is derived, but joined to dist(2, 3)" in reason
    assert "edge(1, 2, 2)   input fact, retracted" in reason
