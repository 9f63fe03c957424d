"""Pictures as data: what their nodes say, their parts, their groups and their colours."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest

import dbsp
from dbsp import Circuit, Schema, col, count
from dbsp.circuit.circuit_drawing import CircuitDrawing
from dbsp.circuit.drawn_terms import DrawnTerm
from dbsp.circuit.pictures.circuit_picture import circuit_picture, node_ids
from dbsp.circuit.pictures.grouping import collapsed
from dbsp.circuit.pictures.picture import Measured, PictureData, PictureEdge, PictureFrame, PictureNode
from dbsp.circuit.pictures.selection import around, critical_path
from dbsp.errors import ArgumentError
from dbsp.operators.joins.join import Join
from dbsp.operators.time.nested import Nested

TEXT = """
.decl sale(shop: symbol, item: symbol, n: number)
.input sale
.decl total(shop: symbol, n: number)
.output total
total(s, t) :- sale(s, _, _), t = sum n : { sale(s, _, n) }.
.decl edge(x: number, y: number)
.input edge
.decl blocked(x: number)
.input blocked
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), x < 100, !blocked(z).
.decl far(x: number, n: number)
.output far
far(x, m) :- path(x, _), m = max y * 2 + 1 : { path(x, y) }.
"""


@pytest.fixture(scope="module")
def program() -> dbsp.Program:
    return dbsp.compile(TEXT)


@pytest.fixture(scope="module")
def run(program: dbsp.Program) -> dbsp.Run:
    run = program.start(observe=True)
    run.step({"edge": [(1, 2), (2, 3), (3, 4)], "sale": [("a", "pen", 2), ("a", "ink", 3)]})
    return run


def titles(picture: PictureData) -> list[str]:
    return [node.title for node in picture.nodes]


def plain(picture: PictureData) -> nx.DiGraph:
    """The arrows of a picture."""
    graph = nx.DiGraph()
    graph.add_nodes_from(node.id for node in picture.nodes)
    graph.add_edges_from((edge.source, edge.target) for edge in picture.edges)
    return graph


# --- what the nodes say --------------------------------------------------------------------------


def test_titles_name_the_columns_of_a_program(program: dbsp.Program) -> None:
    query = set(titles(circuit_picture(program.circuit())))
    assert {
        "Project s = shop, n",
        "Aggregate sum(n) by s",
        "Filter x < 100",
        "Join on y",
        "Antijoin on z",
        "Map #1 = y * 2 + 1",
        "Aggregate max(y * 2 + 1) by x",
        "Rename max(y * 2 + 1) to m",
    } <= query
    physical = set(titles(circuit_picture(program.circuit("physical"))))
    assert {"Arrange by y, x", "Join on y = x", "Aggregate sum(n) by s", "Arrange by s, sum(n)"} <= physical
    for stage in ("query", "incremental", "physical", "distributed"):
        for node in circuit_picture(program.circuit(stage)).nodes:
            columns = node.columns.replace("#1: number", "")
            assert "int" not in columns
            assert "str" not in columns


def test_titles_of_operators_that_are_built_by_hand() -> None:
    circuit = Circuit("shop")
    sale = circuit.input("sale", shop=str, item=str, n=int)
    shop = circuit.input("shop", name=str, city=str)
    joined = sale.join(shop, on=[("shop", "name")])
    built = [
        (joined, "Join on shop = name"),
        (sale.join(shop, on=[], select=["item", "city"]), "Join"),
        (sale.join(shop, on=[("shop", "name")], how="semi"), "Semijoin on shop = name"),
        (sale.join(shop, on=[("shop", "name")], how="anti"), "Antijoin on shop = name"),
        (sale.join(shop, on=[("shop", "name")], how="left"), "LeftJoin on shop = name"),
        (
            sale.group_by("shop").agg(total=col("n").sum(), sold=count(), most=col("n").max()),
            "Aggregate total = sum(n), sold = count(*), most = max(n) by shop",
        ),
        (sale.top_k(2, by="n", partition="shop", descending=True), "TopK 2 by n descending per shop"),
        (sale.rank(by="n", name="place"), "Rank rank by n"),
        (sale.filter((col("n") + 1) * 2 > 6), "Filter (n + 1) * 2 > 6"),
        (sale.map(item=col("item"), twice=col("n") * 2), "Map twice = n * 2"),
        (sale.rename(amount="n"), "Rename n to amount"),
    ]
    for number, (stream, _) in enumerate(built):
        circuit.output(f"out{number}", stream)
    picture = circuit_picture(circuit)
    ids = node_ids(circuit)
    assert [picture.node(ids[stream.node]).title for stream, _ in built] == [title for _, title in built]
    top = [t for t in titles(circuit_picture(circuit.circuit("physical"))) if t.startswith("TopK")]
    assert top == ["TopK 2 by n descending per shop"]


def test_tooltips_have_the_rule_and_its_place(program: dbsp.Program) -> None:
    rule = "path(x, z) :- path(x, y), edge(y, z), x < 100, !blocked(z)."
    parts = [node for node in circuit_picture(program.circuit()).nodes if node.text == rule]
    assert {node.operator for node in parts} >= {"Filter", "Join", "Antijoin"}
    for node in parts:
        assert node.tooltip.split("\n")[0] == f"{node.operator} at <program>:14:1"
        assert rule in node.tooltip
    # One box of the scope, and one of those outside, shows the text.
    assert [node.title for node in parts if node.shows_text] == ["Rename x to z", "Rename z to y"]
    assert "!blocked(z)." in program.draw().to_dot()
    # A part of a rule belongs to the rule, although its place is within the rule.
    sums = [
        node for node in circuit_picture(program.circuit()).nodes if node.title.startswith("Aggregate sum")
    ]
    assert [(node.place, node.rule) for node in sums] == [("<program>:6:35", "<program>:6:1")]


def test_long_titles_keep_their_end() -> None:
    circuit = Circuit("wide")
    wide = circuit.input("wide", schema={f"column_{n}": int for n in range(30)})
    circuit.output("out", wide.map(**{f"c{n}": col(f"column_{n}") + n for n in range(30)}))
    (node,) = (node for node in circuit_picture(circuit).nodes if node.operator == "Map")
    dot = circuit.draw().to_dot()
    assert "c29 = column_29 + 29" in node.tooltip
    label = next(line for line in dot.splitlines() if line.strip().startswith('n1 [label="Map'))
    shown = label.split('" fillcolor')[0].split("\\n")
    assert shown[2] == "..."
    assert shown[3].endswith("column_29 + 29")


# --- the terms of an incremental form inside a scope ---------------------------------------------


def axis_of(dimension: str, scopes: Sequence[str]) -> int:
    if dimension == "ticks":
        return 0
    return 1 if dimension == "iterations" else 1 + scopes.index(dimension.removeprefix("iterations of "))


def shifted(values: Any, axis: int) -> Any:
    moved = np.roll(values, 1, axis)
    moved[(slice(None),) * axis + (0,)] = 0
    return moved


def value_of(picture: PictureData, id: str, given: dict[str, Any], apply: Any, scopes: Sequence[str]) -> Any:
    """The value of a node of the drawn terms, from the values of the streams that they read."""
    if id in given:
        return given[id]
    node = picture.node(id)
    reads = [edge for edge in picture.edges if edge.target == id and edge.kind != "delayed"]
    values = [value_of(picture, edge.source, given, apply, scopes) for edge in reads]
    if " over the " in node.title:
        name, _, dimension = node.title.partition(" over the ")
        axis = axis_of(dimension, scopes)
        return np.cumsum(values[0], axis) if name == "I" else shifted(values[0], axis)
    if node.title == "Sum of the terms":
        signs = [1 if edge.label == "+" else -1 for edge in reads]
        return sum(sign * value for sign, value in zip(signs, values, strict=True))
    return apply(*values)


def nested_circuit(depth: int, build: Callable[[Any, Any], Any]) -> tuple[Circuit, list[str]]:
    """A circuit with an operator inside scopes; return the names of the scopes, too."""
    circuit = Circuit("nested")
    a, b = circuit.input("a", x=int), circuit.input("b", x=int)
    names = [f"scope{n}" for n in range(depth)]

    def inside(level: int, outer: Any) -> Any:
        with (circuit if level == 0 else outer).fixpoint(names[level]) as scope:
            variable = scope.variable(f"v{level}", a.schema)
            value = build(variable, b) if level == depth - 1 else inside(level + 1, scope)
            scope.define(variable, (value + variable + a).distinct())
        return scope.leave(variable)

    circuit.output("out", inside(0, None))
    return circuit, names


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", ["Join", "Distinct"])
def test_the_drawn_terms_are_the_change(depth: int, name: str) -> None:
    """D(f(I(a), I(b))) in every time dimension equals the sum of the terms of the picture."""
    binary = name == "Join"
    build = (lambda s, t: s.join(t, on=["x"], select=["x"])) if binary else (lambda s, t: (s + t).distinct())
    circuit, scopes = nested_circuit(depth, build)
    picture = circuit_picture(circuit.circuit("incremental"))
    frames = [frame.id for frame in picture.frames if frame.title.startswith(f"Change of {name}")]
    assert len(frames) >= 1
    frame = max(frames, key=len)  # the deepest one
    inside = {node.id for node in picture.nodes if node.frame == frame}
    outer = list(
        dict.fromkeys(e.source for e in picture.edges if e.target in inside and e.source not in inside)
    )
    assert len(outer) == (2 if binary else 1)
    apply: Any = (lambda x, y: x * y) if binary else (lambda x: (x > 0).astype(np.int64))
    (total,) = (id for id in inside if picture.node(id).title == "Sum of the terms")
    random = np.random.default_rng(depth)
    axes = range(depth + 1)
    if depth == 1:
        assert {"I over the ticks", "z^-1 over the iterations"} <= {picture.node(id).title for id in inside}
    for _ in range(5):
        given = {id: random.integers(-2, 3, (4,) * (depth + 1)) for id in outer}
        sums = []
        for id in outer:
            value = given[id]
            for axis in axes:
                value = np.cumsum(value, axis)
            sums.append(value)
        expected = apply(*sums)
        for axis in axes:
            expected = expected - shifted(expected, axis)
        assert (value_of(picture, total, given, apply, scopes) == expected).all()
    plain_picture = circuit_picture(circuit.circuit("incremental"), terms=False)
    assert "Change of Distinct" in titles(plain_picture)
    assert {frame.kind for frame in plain_picture.frames} == {"scope"}


def test_a_drawn_product_has_new_factors_before_the_delta_and_old_ones_after_it() -> None:
    """As in the law of products (see `dbsp.operators.time.multilinear_terms`)."""
    product = Nested(Join((0,), (0,), (0,), ("x",)))
    assert product.drawn_terms(2, 1) == [
        DrawnTerm(1, (("delta",), ("old",))),
        DrawnTerm(1, (("new",), ("delta",))),
    ]


# --- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["query", "physical"])
@pytest.mark.parametrize("depth", [None, 0, 2, 5])
def test_what_leads_to_a_relation(program: dbsp.Program, stage: str, depth: int | None) -> None:
    picture = circuit_picture(program.circuit(stage))
    graph = plain(picture)
    (start,) = (node.id for node in picture.nodes if node.relation == "path")
    above = nx.single_source_shortest_path_length(graph.reverse(), start, cutoff=depth)
    below = nx.single_source_shortest_path_length(graph, start, cutoff=depth)
    part = around(picture, "path", depth=depth)
    assert {node.id for node in part.nodes} == set(above)
    both = around(picture, "path", readers=True, depth=depth)
    assert {node.id for node in both.nodes} == {*above, *below}
    for node in both.nodes:
        for what, ends in (("input", graph.predecessors(node.id)), ("reader", graph.successors(node.id))):
            missing = len(set(ends) - {*above, *below})
            noted = [note for note in node.notes if what in note]
            assert noted == ([f"{dbsp.errors.counted(missing, what)} not shown"] if missing else [])
    frames = {frame.id for frame in both.frames}
    assert {node.frame for node in both.nodes if node.frame} <= frames


def test_the_critical_path_is_the_longest(program: dbsp.Program, run: dbsp.Run) -> None:
    picture = run.draw().picture
    graph = nx.DiGraph()
    graph.add_nodes_from(node.id for node in picture.nodes)
    for edge in picture.edges:
        if edge.kind != "delayed":
            graph.add_edge(edge.source, edge.target)
    path = critical_path(picture)
    assert nx.is_path(graph, path)
    assert len(path) == len(nx.dag_longest_path(graph))
    seconds = {node.id: node.measured.seconds or 0.0 for node in picture.nodes}
    for source, target in graph.edges:
        graph[source][target]["weight"] = seconds[target]
    for source in list(graph):
        graph.add_edge("start", source, weight=seconds[source])
    slowest = critical_path(picture, "time")
    assert sum(map(seconds.__getitem__, slowest)) == pytest.approx(
        nx.dag_longest_path_length(graph, weight="weight")
    )
    drawn = run.draw(critical="time").picture
    assert {node.id for node in drawn.nodes if node.marked} == set(slowest)
    assert sum(edge.marked for edge in drawn.edges) == len(slowest) - 1
    assert critical_path(PictureData("none", ())) == []


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["rules", "strata", "scopes"])
@pytest.mark.parametrize("stage", ["query", "incremental", "physical"])
def test_groups_keep_all_operators_and_what_depends_on_what(
    program: dbsp.Program, by: Any, stage: str
) -> None:
    picture = circuit_picture(program.circuit(stage))
    grouped = collapsed(picture, by)
    assert sum(node.size for node in grouped.nodes) == len(picture.nodes) > len(grouped.nodes)
    assert len({node.id for node in grouped.nodes}) == len(grouped.nodes)
    before, after = plain(picture), plain(grouped)
    ports = [node.id for node in picture.nodes if node.kind in ("input", "output")]
    for a in ports:
        for b in ports:
            if nx.has_path(before, a, b):
                assert nx.has_path(after, a, b)
    assert {node.frame for node in grouped.nodes} <= {"", *(frame.id for frame in grouped.frames)}


def test_the_groups_of_a_program(program: dbsp.Program) -> None:
    strata = program.draw(collapse="strata").picture
    assert sorted(titles(strata)) == [
        "Fixpoint path",
        "Input blocked",
        "Input edge",
        "Input sale",
        "Output far",
        "Output path",
        "Output total",
        "far",
        "path",
        "total",
    ]
    named = {node.id: node.title for node in strata.nodes}
    arrows = {(named[edge.source], named[edge.target]) for edge in strata.edges}
    assert ("Input sale", "total") in arrows
    assert ("Fixpoint path", "Fixpoint path") in arrows
    assert ("Fixpoint path", "total") not in arrows
    rules = titles(program.draw(collapse="rules").picture)
    assert "path(x, z) :- path(x, y), edge(y, z), x < 100, !blocked(z)." in rules
    assert rules.count("total(s, t) :- sale(s, _, _), t = sum n : { sale(s, _, n) }.") == 1
    near = program.draw(collapse="strata", only="path", depth=1, readers=True).picture
    assert sorted(titles(near)) == [
        "Fixpoint path",
        "Input edge",
        "Output path",
        "far",
        "path",
    ]
    scopes = program.draw(collapse="scopes").picture
    assert [node.title for node in scopes.nodes if node.kind == "group"] == ["Fixpoint path"]
    assert scopes.frames == ()


def test_a_group_sums_its_measurements(run: dbsp.Run) -> None:
    picture, grouped = run.draw().picture, run.draw(collapse="rules").picture
    for what in ("rows_out", "state_bytes", "steps"):
        total = [getattr(node.measured, what) or 0 for node in picture.nodes]
        assert sum(getattr(node.measured, what) or 0 for node in grouped.nodes) == sum(total) > 0
    scope = next(node for node in run.draw(collapse="scopes").picture.nodes if node.kind == "group")
    (stats,) = (stats for stats in run.stats() if stats.node.label == "Fixpoint path")
    assert scope.measured.seconds == stats.seconds


# --- several stages, relations, profiles ---------------------------------------------------------


def test_stages_side_by_side_share_the_colours_of_rules(program: dbsp.Program) -> None:
    drawing = program.draw(stage=["query", "incremental", "physical"])
    picture = drawing.picture
    assert [f.title.split()[0] for f in picture.frames if f.kind == "stage"] == [
        "query",
        "incremental",
        "physical",
    ]
    colours: dict[str, set[str]] = {}
    for node in picture.nodes:
        colours.setdefault(node.rule, set()).add(node.fill)
    assert all(len(fills) == 1 for fills in colours.values())
    assert len({fill for fills in colours.values() for fill in fills}) == len(colours)
    legend = {line.fill: line.text for line in picture.legend}
    rule = next(node for node in picture.nodes if node.text.startswith("far(x, m)"))
    assert legend[rule.fill].endswith(rule.text)
    for stage in ("query", "incremental", "physical"):
        alone = circuit_picture(program.circuit(stage), prefix=f"{stage}_")
        assert [n.id for n in picture.nodes if n.id.startswith(f"{stage}_")] == [n.id for n in alone.nodes]
    assert drawing.to_dot().count("subgraph cluster_stage_") == 3


def test_the_relations_of_a_program(program: dbsp.Program) -> None:
    picture = program.draw(overview=True).picture
    name = {node.id: node.title for node in picture.nodes}
    arrows = {(name[e.source], name[e.target], e.kind) for e in picture.edges}
    assert arrows == {
        ("sale", "total", "stream"),
        ("sale", "total", "aggregated"),
        ("edge", "path", "stream"),
        ("path", "path", "stream"),
        ("blocked", "path", "negated"),
        ("path", "far", "stream"),
        ("path", "far", "aggregated"),
    }
    (frame,) = picture.frames
    assert [node.title for node in picture.inside(frame.id)] == ["path"]
    assert {node.title: node.kind for node in picture.nodes} == {
        **dict.fromkeys(("sale", "edge", "blocked"), "input"),
        **dict.fromkeys(("total", "path", "far"), "output"),
    }
    (path,) = (node for node in picture.nodes if node.relation == "path")
    assert path.notes == ("2 rules, stratum 2",)
    assert "!blocked(z)" in path.tooltip
    part = program.draw(overview=True, only="far", depth=1).picture
    assert {node.title for node in part.nodes} == {"far", "path"}


def test_a_profile_colours_nodes_by_what_was_measured(run: dbsp.Run) -> None:
    for profile, amount in (("time", "seconds"), ("rows", "rows_out"), ("state", "state_bytes")):
        picture = run.draw(profile=profile).picture  # type: ignore[arg-type]
        amounts = {node.id: getattr(node.measured, amount) or 0 for node in picture.nodes}
        assert max(amounts.values()) > 0
        heat = sorted((amounts[node.id], -int(node.fill[3:5], 16)) for node in picture.nodes)
        assert [green for _, green in heat] == sorted(green for _, green in heat)
        assert {node.fill for node in picture.nodes if amounts[node.id] == max(amounts.values())} == {
            "#ff6147"
        }
        assert {node.fill for node in picture.nodes if amounts[node.id] == 0} <= {"#ffffff"}
        assert picture.legend[5].fill == "#ff6147"
        rows = {node.id: node.measured.rows_out or 0 for node in picture.nodes}
        widths = sorted((rows[edge.source], edge.width) for edge in picture.edges)
        assert [width for _, width in widths] == sorted(width for _, width in widths)
        assert widths[0][1] == 1
        assert widths[-1][1] == 6
    dot = run.draw(profile="rows").to_dot()
    assert "rows emitted" in dot
    assert "penwidth=6.00" in dot
    (edge,) = (node for node in run.draw().picture.nodes if node.title == "Input edge")
    assert edge.measured.rows_out == 3


# --- forms ---------------------------------------------------------------------------------------


def test_json_has_all_of_a_picture(program: dbsp.Program) -> None:
    drawing = program.draw(stage="physical")
    data = json.loads(drawing.to_json())
    assert [node["id"] for node in data["nodes"]] == [node.id for node in drawing.picture.nodes]
    assert [node["tooltip"] for node in data["nodes"]] == [node.tooltip for node in drawing.picture.nodes]
    fields = ("nodes", "edges", "frames", "legend")
    assert [len(data[name]) for name in fields] == [len(getattr(drawing.picture, name)) for name in fields]
    ids = node_ids(program.circuit("physical"))
    assert {node["id"] for node in data["nodes"]} == {
        id for node, id in ids.items() if not node.operator.children()
    }


def test_mermaid_has_every_node_arrow_and_frame(program: dbsp.Program) -> None:
    picture = program.draw(stage="physical").picture
    lines = program.draw(stage="physical").to_mermaid().splitlines()
    assert lines[0] == "flowchart TB"
    assert sum(" --> " in line or " -.-> " in line for line in lines) == len(picture.edges)
    assert sum(line.strip().startswith("subgraph ") for line in lines) == len(picture.frames) == 1
    for node in picture.nodes:
        assert sum(line.strip().startswith((f"{node.id}[", f"{node.id}(")) for line in lines) == 1
    text = "\n".join(lines)
    assert "Filter x #lt; 100" in text
    assert "x < 100" not in text


def test_large_pictures_are_drawn_to_the_right() -> None:
    for size, direction in ((60, "TB"), (61, "LR")):
        nodes = tuple(PictureNode(f"n{n}", str(n)) for n in range(size))
        drawing = CircuitDrawing(PictureData("many", nodes))
        assert f"rankdir={direction}" in drawing.to_dot()
        assert drawing.to_mermaid().startswith(f"flowchart {direction}\n")
    stages = CircuitDrawing(PictureData("many", nodes, frames=(PictureFrame("s", "query", "stage"),)))
    assert "rankdir=TB" in stages.to_dot()


def test_the_texts_of_marks_and_kinds() -> None:
    nodes = (
        PictureNode("a", "a", "relation", marked=True, relation="a", measured=Measured(0.5, 1)),
        PictureNode("b", 'b "quoted"', "group"),
    )
    edges = (PictureEdge("a", "b", "negated", "not", 2.5), PictureEdge("b", "a", "aggregated", marked=True))
    drawing = CircuitDrawing(PictureData("marks", nodes, edges))
    dot = drawing.to_dot()
    assert 'a [label="a\\n500.0 ms, 1 row out" color="#c62828"' in dot
    assert "penwidth=2.50 style=dashed" in dot
    assert r"b \"quoted\"" in dot
    mermaid = drawing.to_mermaid()
    assert 'b[["b #quot;quoted#quot;"]]' in mermaid
    assert 'a -.-o|"not"| b' in mermaid
    assert "b ==> a" in mermaid
    assert "linkStyle 0 stroke-width:2.5px" in mermaid
    assert "style a stroke:#c62828" in mermaid


# --- errors --------------------------------------------------------------------------------------


def test_wrong_options(program: dbsp.Program) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {"only": "pth"},
            r"^only: expected a relation of the circuit, got 'pth'; did you mean 'path'\? \[unknown-",
        ),
        ({"only": 3}, r"^only: expected the name of a relation, got 3 of type int \[invalid-argument\]$"),
        (
            {"only": "path", "depth": -1},
            r"^depth: expected a number of arrows, 0 or more, got -1 of type int",
        ),
        ({"only": "path", "depth": True}, r"^depth: expected a number of arrows"),
        ({"depth": 2}, r"^depth= selects nodes around a relation; give the relation as only= "),
        ({"readers": True}, r"^readers= selects nodes around a relation; give the relation as only= "),
        ({"collapse": "rule"}, r"^collapse= expects one of 'rules', 'strata', 'scopes', got 'rule' "),
        ({"critical": "rows"}, r"^critical= expects one of 'nodes', 'time', got 'rows' "),
        ({"stage": "slow"}, r"^stage= expects one of 'query', .*, got 'slow' "),
        ({"stage": []}, r"^stage: expected the name of a stage, or a list of names, got \[\] of type list "),
        ({"stage": ["query", "slow"]}, r"^stage= expects one of 'query', .*, got 'slow' "),
    ]
    for options, message in wrong:
        with pytest.raises(ArgumentError, match=message):
            program.draw(**options)
    with pytest.raises(
        ArgumentError, match=r"got 'zzz'; its relations are blocked, edge, far, path, sale, total"
    ):
        program.draw(only="zzz")
    circuit = Circuit("names")
    circuit.output("out", circuit.constant([(1,)], Schema.of(x=int)))
    with pytest.raises(ArgumentError, match=r"got 'a'; the circuit names no relations"):
        circuit.draw(only="a")


def test_a_profile_needs_statistics(program: dbsp.Program) -> None:
    silent = program.start()
    for options in ({"profile": "time"}, {"profile": "rows"}, {"critical": "time"}):
        (name, value), *_ = options.items()
        message = rf"^{name}='{value}' needs statistics, and the run has none; call run.observe\(\) before"
        with pytest.raises(ArgumentError, match=message):
            silent.draw(**options)  # type: ignore[arg-type]
    assert silent.draw(profile="state").picture.legend[0].text == "colour: state, of 0 bytes in all nodes"
    with pytest.raises(ArgumentError, match=r"^profile= expects one of 'time', 'rows', 'state', got 'hot' "):
        silent.draw(profile="hot")  # type: ignore[arg-type]
