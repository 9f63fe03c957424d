"""Source lines of nodes, checks of the graph, and the graph that lowering builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbsp import Circuit, CircuitError, SchemaError, col, count
from dbsp.circuit.graph import Stream as AnyStream
from dbsp.operators.linear.filter import FilterFunction
from tests.circuit.support import edges


def line_of(marker: str) -> int:
    """Return the line of this file that ends in the comment."""
    lines = Path(__file__).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}")]
    return found


def test_the_line_is_where_the_operator_was_called() -> None:
    _, e = edges()
    with pytest.raises(SchemaError) as caught:
        e.filter(col("x") > 1).select(
            "z",
        )  # called here
    assert line_of("called here") - 3 < int(str(caught.value).split(":")[1]) <= line_of("called here")


def test_at_names_another_source() -> None:
    circuit, e = edges()
    with (
        circuit.at("rules.dl:7"),
        pytest.raises(SchemaError, match=r"^Select at rules\.dl:7: unknown column 'z'"),
    ):
        e.select("z")
    assert e.filter(col("x") > 1).node.source.startswith("test_graph.py:")


def test_files_next_to_the_package_belong_to_the_caller(tmp_path: Path) -> None:
    """A path that starts like the path of the package does not belong to the package."""
    package = Path(sys.modules["dbsp"].__file__ or "").parent
    (tmp_path / "dbsp").symlink_to(package)
    script = tmp_path / "dbsp_etl.py"
    script.write_text("from dbsp import Circuit\nc = Circuit()\nprint(c.input('e', x=int).node.source)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "dbsp_etl.py:3\n"


CODE = """from dbsp import Circuit, count
class Source:
    def __init__(self, circuit):
        self.stream = circuit.input("e", x=int, y=int)
e = Source(Circuit()).stream
grouped = e.group_by("x").agg(n=count())
print(e.node.source, grouped.node.source)
e.select("z")
"""


@pytest.mark.parametrize("code", ["-c", "exec"])
def test_code_without_a_file_has_line_numbers(code: str) -> None:
    command = ["-c", CODE] if code == "-c" else ["-c", "import sys; exec(sys.argv[1])", CODE]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.stdout == "<string>:4 <string>:6\n"
    assert "SchemaError: Select at <string>:8: unknown column 'z'" in done.stderr


def test_a_cycle_without_a_delay_is_found_in_a_graph_wired_by_hand() -> None:
    circuit, e = edges()
    first = e.filter(col("x") > 1)
    second = first + e
    first.node.inputs = (AnyStream(second.node),)
    with pytest.raises(
        CircuitError,
        match=r"cycle without a delay: Union at test_graph.py:\d+ -> Filter at test_.*add a delay",
    ):
        circuit.validate()


def test_a_single_name_is_accepted_for_a_list_of_names() -> None:
    circuit = Circuit()
    left = circuit.input("left", name=str, x=int)
    right = circuit.input("right", name=str, y=int, key="name")
    circuit.output("out", left.join(right, on="name").join(left, on="name", how="anti"))
    assert circuit.start().outputs["out"].names == ("name", "x", "y")


def test_nodes_store_the_line_that_built_them() -> None:
    circuit, e = edges()
    stream = e.filter(col("x") > 1)  # built here
    assert stream.node.describe() == f"Filter at test_graph.py:{line_of('built here')}"
    assert repr(stream) == f"<stream of <c#1 {stream.node.label}>: x: int, y: int>"
    assert repr(circuit) == "<circuit 'c': 2 nodes>"
    assert [node.label for node in circuit.walk()] == ["Input edge", 'Filter col("x") > 1']


def test_equal_work_is_done_once() -> None:
    circuit, e = edges()
    for name in "abc":
        circuit.output(
            name, e.filter(col("x") > 1).distinct().group_by("x").agg(n=count(), low=col("y").min())
        )
    labels = [node.label for node in circuit.start().graph.walk()]
    assert len([label for label in labels if label.startswith("Filter")]) == 1
    assert len([label for label in labels if label.startswith("Distinct")]) == 1
    assert len([label for label in labels if label.startswith("Aggregate")]) == 1


def test_different_constants_in_expressions_are_different_work() -> None:
    circuit, e = edges()
    circuit.output("a", e.map(v=col("x") + 1))
    circuit.output("b", e.map(v=col("x") + 1.0))
    run = circuit.start()
    run.step({"edge": [(1, 1)]})
    assert [type(run.view(name).rows()[0][0]) for name in "ab"] == [int, float]


def test_nodes_that_no_output_reads_do_not_run() -> None:
    circuit, e = edges()

    def fail(row: object) -> bool:
        raise RuntimeError("nobody asked")

    e.filter(fail)
    circuit.output("out", e)
    run = circuit.start()
    assert run.step({"edge": [(1, 1)]})["out"].to_dict() == {(1, 1): 1}
    assert not [node for node in run.graph.walk() if isinstance(node.operator, FilterFunction)]


def test_work_that_does_not_depend_on_the_scope_is_done_outside_of_it() -> None:
    circuit, e = edges()
    allowed = circuit.input("allowed", x=int)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", e.schema)
        good = e.join(allowed, on=["x"], how="semi").filter(col("y") > 0).distinct()
        scope.define(path, (good + path.join(good, on=[("y", "x")], select=["x", "y_right"])).distinct())
    circuit.output("path", scope.leave(path))
    run = circuit.start()
    outside = [node.label for node in run.graph.nodes]
    (body,) = [child for node in run.graph.nodes for child in node.operator.children()]
    inside = [node.label for node in body.nodes]
    assert any(label.startswith("Filter") for label in outside) and "Arrange by 0, 1" in outside
    assert sorted({label.split()[0] for label in inside}) == [
        "Arrange",
        "Delay",
        "Delta0",
        "Distinct",
        "Join",
        "Union",
    ]
    run.step({"edge": [(1, 2), (2, 3), (4, 0)], "allowed": [(1,), (2,), (4,)]})
    assert run.view("path").rows() == [(1, 2), (1, 3), (2, 3)]


def test_an_outer_stream_leaves_a_scope_unchanged() -> None:
    circuit, e = edges()
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", e.schema)
        two = e.join(e, on=[("y", "x")], select=["x", "y_right"])
        scope.define(path, (e + path).distinct())
    assert scope.leave(two) is two and scope.leave(e) is e
    circuit.output("two", scope.leave(two))
    circuit.output("path", scope.leave(path))
    run = circuit.start()
    run.step({"edge": [(1, 2), (2, 3)]})
    assert run.view("two").rows() == [(1, 3)]
    assert run.view("path").rows() == [(1, 2), (2, 3)]
