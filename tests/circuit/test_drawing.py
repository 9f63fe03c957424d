"""Drawings of circuits as DOT and as pictures."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dbsp
from dbsp import Circuit, Schema
from dbsp.circuit import drawing
from dbsp.errors import ArgumentError, DbspError, SetupError


def closure() -> Circuit:
    circuit = Circuit('a "closure"')
    edge = circuit.input("edge", x=int, y=int)
    with circuit.at("rules.dl:7"):
        small = edge.filter(lambda row: row.x < 100)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", Schema.of(x=int, y=int))
        longer = path.join(edge.rename(y="x", z="y"), on=["y"], select=["x", "z"]).rename(y="z")
        scope.define(path, (small + longer).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def test_dot_shows_operators_streams_and_scopes() -> None:
    dot = drawing.to_dot(closure())
    assert dot.startswith("digraph circuit {")
    assert r'label="a \"closure\""' in dot
    assert "subgraph cluster_" in dot
    assert 'label="Fixpoint closure"' in dot
    assert r'label="Input edge\nx: int, y: int\ntest_drawing.py:' in dot
    assert "rules.dl:7" in dot
    assert "Output path" in dot
    # The variable of the recursion is read one iteration late.
    assert dot.count("style=dashed") == 1


def edges(dot: str) -> list[tuple[str, str]]:
    found = []
    for line in dot.splitlines():
        if " -> " in line and "label=" not in line:
            left, right = line.strip().split(" [")[0].split(" -> ")
            found.append((left, right))
    return found


def test_every_stream_is_an_arrow_and_every_end_is_drawn() -> None:
    circuit = closure()
    dot = drawing.to_dot(circuit)
    drawn = edges(dot)
    (scope,) = [node for node in circuit.nodes if node.operator.children()]
    (body,) = scope.operator.children()
    plain = sum(len(node.inputs) + len(node.strict) for node in circuit.walk() if node is not scope)
    assert len(drawn) == plain + len(body.entered)
    for end in {name for edge in drawn for name in edge}:
        assert f"{end} [label=" in dot
    # The scope itself is drawn as a frame only.
    assert f"n{scope.id}" not in {name for edge in drawn for name in edge}


def test_drawing_is_deterministic() -> None:
    assert drawing.to_dot(closure()) == drawing.to_dot(closure())


def test_labels_are_text_and_not_markup() -> None:
    circuit = Circuit("c")
    stream = circuit.input("<b>", schema={"a\\nb": int})
    with circuit.at("f" * 100):
        circuit.output("&", stream)
    dot = drawing.to_dot(circuit)
    assert r"a\\nb: int" in dot
    assert r"\n".join(["f" * 46, "f" * 46, "f" * 8]) in dot
    assert "&lt;b&gt;" in drawing.to_svg(circuit)


def test_an_empty_circuit() -> None:
    assert "<svg" in drawing.to_svg(Circuit("empty"))


def test_title() -> None:
    assert "label=other" in drawing.to_dot(closure(), title="other")


def test_pictures(tmp_path: Path) -> None:
    circuit = closure()
    svg = drawing.to_svg(circuit)
    assert "Fixpoint closure" in svg
    assert svg.count('class="node"') == drawing.to_dot(circuit).count("tooltip=")
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        drawing.write(circuit, tmp_path / f"c{suffix}")
        assert (tmp_path / f"c{suffix}").read_bytes().startswith(start)
    drawing.write(circuit, tmp_path / "c.dot")
    assert (tmp_path / "c.dot").read_text() == drawing.to_dot(circuit)


def test_pictures_do_not_need_a_program_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert shutil.which("dot") is None
    assert "<svg" in drawing.to_svg(closure())


def test_without_any_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert importlib.util.find_spec("graphviz") is not None
    with pytest.raises(
        SetupError, match=r"pip install dbsp-circuits\[draw\].*DOT output works without it \[setup\]"
    ):
        drawing.to_svg(closure())
    drawing.write(closure(), tmp_path / "c.gv")


def test_the_dot_program_is_used_if_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\nread first\necho "$1 $first"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert drawing.render("digraph {}\n") == b"-Tsvg digraph {}\n"
    program.write_text("#!/bin/sh\necho 'Error: no such thing' >&2\nexit 1\n")
    with pytest.raises(DbspError, match=r"lay out the circuit as svg: Error: no such .* \[drawing-failed\]"):
        drawing.render("digraph {}\n")


def test_file_names_without_a_known_suffix(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"c.txt: expected a file name that ends in one of .dot, .gv, .mmd"
    ):
        drawing.write(closure(), tmp_path / "c.txt")
    with pytest.raises(DbspError, match=r"cannot be written: No such file or directory \[unwritable-file\]"):
        drawing.write(closure(), tmp_path / "none" / "c.dot")


def test_a_program_and_a_run_are_drawn_as_their_circuit() -> None:
    program = dbsp.compile(".decl e(x: number) .input e .output e")
    assert dbsp.draw.to_dot(program) == dbsp.draw.to_dot(program.circuit())
    run = program.start()
    drawn = dbsp.draw.to_dot(run)
    assert drawn.replace("\\n0 rows, 0 bytes", "") == dbsp.draw.to_dot(run.graph) != drawn


@pytest.mark.parametrize("value", [None, 3, "reach.dl", Schema.of(x=int)])
def test_other_values_are_not_drawn(value: object) -> None:
    with pytest.raises(
        ArgumentError, match=r"^circuit: expected a circuit, a program or a run, got .*\[invalid-argument\]$"
    ):
        dbsp.draw.write(value, "c.dot")


def test_the_name_of_a_drawing_is_a_path() -> None:
    with pytest.raises(ArgumentError, match=r"^path: expected the name of a file, got None of type NoneType"):
        drawing.write(closure(), None)  # type: ignore[arg-type]


def test_draw_is_imported_on_first_use() -> None:
    code = (
        "import sys, dbsp\n"
        "print('dbsp.circuit.drawing' in sys.modules, dbsp.draw.__name__, 'draw' in dir(dbsp))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False dbsp.circuit.drawing True\n"
