"""The circuit graph: what is refused when it is built, in which words, and what lowering makes of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dbsp import Circuit, CircuitError, DbspError, InputError, SchemaError, Stream, col, count, min_, sum_
from dbsp.circuit.graph import Stream as AnyStream
from dbsp.errors import ValueOutOfRangeError
from dbsp.operators.linear.filter import FilterFunction

PAIR = {"x": int, "y": int}


def line_of(marker: str) -> int:
    """The line of this file that ends in the comment."""
    lines = Path(__file__).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}")]
    return found


def edges(name: str = "c") -> tuple[Circuit, Stream]:
    circuit = Circuit(name)
    return circuit, circuit.input("edge", x=int, y=int)


# --- errors name the operator and the caller's line --------------------------------------------------


def two_circuits(c: Circuit, e: Stream) -> None:
    _, other = edges("other")
    e.join(other, on=["x"])


def union_of_two_circuits(c: Circuit, e: Stream) -> None:
    e + edges("other")[1]


def output_of_another_circuit(c: Circuit, e: Stream) -> None:
    c.output("out", edges("other")[1])


def scope_of_another_circuit(c: Circuit, e: Stream) -> None:
    with c.fixpoint("f") as scope:
        v = scope.variable("v", PAIR)
        scope.define(v, e + edges("other")[1])


def union_of_types(c: Circuit, e: Stream) -> None:
    e + c.input("names", x=int, y=str)


def union_of_arities(c: Circuit, e: Stream) -> None:
    e.union(e.project("x"))


def minus_of_types(c: Circuit, e: Stream) -> None:
    e - c.input("names", x=int, y=str)


def join_of_types(c: Circuit, e: Stream) -> None:
    e.join(c.input("names", x=str, z=int), on=["x"])


def join_of_types_in_the_second_pair(c: Circuit, e: Stream) -> None:
    e.join(c.input("names", a=int, b=str), on=[("x", "a"), ("x", "b")])


def semijoin_of_types(c: Circuit, e: Stream) -> None:
    e.semijoin(c.input("names", x=str), on=["x"])


def antijoin_without_column(c: Circuit, e: Stream) -> None:
    e.antijoin(e, on=["z"])


def project_without_column(c: Circuit, e: Stream) -> None:
    e.project("x", "z")


def project_twice(c: Circuit, e: Stream) -> None:
    e.project("x", "x")


def rename_without_column(c: Circuit, e: Stream) -> None:
    e.rename(a="z")


def rename_into_another(c: Circuit, e: Stream) -> None:
    e.rename(y="x")


def filter_without_column(c: Circuit, e: Stream) -> None:
    e.filter(col("z") > 1)


def filter_by_a_number(c: Circuit, e: Stream) -> None:
    e.filter(col("x") + 1)


def filter_by_no_condition(c: Circuit, e: Stream) -> None:
    e.filter(3)  # type: ignore[arg-type]


def rolling_without_column(c: Circuit, e: Stream) -> None:
    e.rolling("z", 3, n=count())


def map_without_column(c: Circuit, e: Stream) -> None:
    e.map(a=col("z"))


def map_without_schema(c: Circuit, e: Stream) -> None:
    e.map(lambda row: row)


def map_without_anything(c: Circuit, e: Stream) -> None:
    e.map()


def flat_map_without_types(c: Circuit, e: Stream) -> None:
    e.flat_map(lambda row: [row], {"x": "integer"})


def join_without_column(c: Circuit, e: Stream) -> None:
    e.join(e, on=["z"])


def join_selects_unknown(c: Circuit, e: Stream) -> None:
    e.join(e, on=["x"], select=["x", "z"])


def join_of_clashing_names(c: Circuit, e: Stream) -> None:
    e.join(c.input("f", x_right=int, x=int), on=[("x", "x_right")])


def group_without_column(c: Circuit, e: Stream) -> None:
    e.group_by("z")


def group_twice(c: Circuit, e: Stream) -> None:
    e.group_by("x", "x")


def aggregate_nothing(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg()


def aggregate_into_key(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg(x=count())


def aggregate_without_column(c: Circuit, e: Stream) -> None:
    e.group_by("x").agg(n=sum_("z"))


def sum_of_strings(c: Circuit, e: Stream) -> None:
    c.input("names", x=int, s=str).group_by("x").agg(n=sum_("s"))


def input_twice(c: Circuit, e: Stream) -> None:
    c.input("edge", x=int)


def input_of_unknown_type(c: Circuit, e: Stream) -> None:
    c.input("f", x="integer")


def input_without_columns(c: Circuit, e: Stream) -> None:
    c.input("f")


def input_of_unknown_kind(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, kind="bag")


def input_with_unknown_key(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, key=["id"])


def input_with_key_twice(c: Circuit, e: Stream) -> None:
    c.input("f", x=int, key=["x", "x"])


def output_twice(c: Circuit, e: Stream) -> None:
    c.output("out", e)
    c.output("out", e)


def constant_of_wrong_type(c: Circuit, e: Stream) -> None:
    c.constant([(1, "a")], PAIR)


def constant_of_wrong_weight(c: Circuit, e: Stream) -> None:
    c.constant({(1, 2): 1.5}, PAIR)  # type: ignore[dict-item]


def constant_overflow(c: Circuit, e: Stream) -> None:
    c.constant([(1, 2**63)], PAIR)


def undefined_variable(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)  # undefined
        scope.define(scope.variable("other", PAIR), e + path)


def variable_defined_twice(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e)
        scope.define(path, e)


def variable_of_other_types(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.define(scope.variable("path", {"x": int, "y": str}), e)


def variable_of_other_arity(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.define(scope.variable("path", {"x": int}), e)


def variable_without_none(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.define(scope.variable("path", {"x": int}), c.input("f", x=int | None))


def define_something_else(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.define(e, e)


def empty_scope(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, path.distinct())


def leave_too_early(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e)
        scope.leave(path)


def leave_another_circuit(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.define(scope.variable("path", PAIR), e)
    scope.leave(edges("other")[1])


def inner_stream_used_outside(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e + path)
    e.join(path, on=["x"])


def inner_stream_handed_out(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e + path)
    c.output("path", path)


def streams_of_two_scopes(c: Circuit, e: Stream) -> None:
    with c.fixpoint("one") as one:
        first = one.variable("first", PAIR)
        one.define(first, e)
    with c.fixpoint("two") as two:
        two.define(two.variable("second", PAIR), first)


def cycle_without_delay(c: Circuit, e: Stream) -> None:
    c.connect(e.filter(col("x") > 1), e)


def feedback_of_other_types(c: Circuit, e: Stream) -> None:
    c.connect(c.feedback({"x": int}), e)


def feedback_twice(c: Circuit, e: Stream) -> None:
    back = c.feedback(PAIR)
    c.connect(back, e)
    c.connect(back, e)


def feedback_of_another_circuit(c: Circuit, e: Stream) -> None:
    c.connect(c.feedback(PAIR), edges("other")[1])


def feedback_without_input(c: Circuit, e: Stream) -> None:
    c.output("out", c.feedback(PAIR) + e)
    c.start()


def integrate_in_scope(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e + path.integrate())
    c.output("out", scope.leave(path))
    c.start()


def differentiate_in_scope(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, e + path.differentiate())
    c.output("out", scope.leave(path))
    c.start()


ERRORS: dict[Callable[[Circuit, Stream], None], tuple[type[DbspError], str, str]] = {
    two_circuits: (CircuitError, "Join", "circuits 'other' and 'c'; connect them inside one circuit"),
    union_of_two_circuits: (
        CircuitError,
        "Union",
        "circuits 'other' and 'c'; connect them inside one circuit",
    ),
    output_of_another_circuit: (CircuitError, "Output", "circuits 'other' and 'c'; connect them inside one"),
    scope_of_another_circuit: (CircuitError, "Union", "circuits 'other' and 'c'; connect them inside one"),
    union_of_types: (SchemaError, "Union", "the columns differ: (x: int, y: int) against (x: int, y: str)"),
    union_of_arities: (SchemaError, "Union", "the columns differ: (x: int, y: int) against (x: int)"),
    minus_of_types: (SchemaError, "Minus", "the columns differ: (x: int, y: int) against (x: int, y: str)"),
    join_of_types: (SchemaError, "Join", "cannot join 'x: int' with 'x: str': the types differ"),
    join_of_types_in_the_second_pair: (SchemaError, "Filter", "cannot compare 'a: int' with 'b: str'"),
    semijoin_of_types: (SchemaError, "Semijoin", "cannot join 'x: int' with 'x: str': the types differ"),
    antijoin_without_column: (SchemaError, "Antijoin", "no column 'z' in (x: int, y: int)"),
    project_without_column: (SchemaError, "Project", "no column 'z' in (x: int, y: int)"),
    project_twice: (SchemaError, "Project", "column 'x' occurs twice in (x, x)"),
    rename_without_column: (SchemaError, "Rename", "no column 'z' in (x: int, y: int)"),
    rename_into_another: (SchemaError, "Rename", "column 'y' occurs twice in (y, y)"),
    filter_without_column: (SchemaError, "Filter", "no column 'z' in (x: int, y: int)"),
    filter_by_a_number: (SchemaError, "Filter", 'wants a condition, but col("x") + 1 is of type int'),
    filter_by_no_condition: (SchemaError, "Filter", "takes a condition on columns or a function, not 3"),
    rolling_without_column: (SchemaError, "Rolling", "no column 'z' in (x: int, y: int)"),
    map_without_column: (SchemaError, "Map", "no column 'z' in (x: int, y: int)"),
    map_without_schema: (
        SchemaError,
        "Map",
        "either a function and the schema of its rows, or named expressions",
    ),
    map_without_anything: (SchemaError, "Map", "map needs at least one output column"),
    flat_map_without_types: (SchemaError, "FlatMap", "column 'x': unknown type 'integer'"),
    join_without_column: (SchemaError, "Join", "no column 'z' in (x: int, y: int)"),
    join_selects_unknown: (SchemaError, "Join", "no output column 'z'; it has x, y, x_right, y_right"),
    join_of_clashing_names: (SchemaError, "Join", "rename a column first: 'x_right' would occur twice"),
    group_without_column: (SchemaError, "Aggregate", "no column 'z' in (x: int, y: int)"),
    group_twice: (SchemaError, "Aggregate", "column 'x' occurs twice in (x, x)"),
    aggregate_nothing: (SchemaError, "Aggregate", "agg needs at least one aggregate, such as n=count()"),
    aggregate_into_key: (SchemaError, "Aggregate", "'x' is a grouping column already"),
    aggregate_without_column: (SchemaError, "Aggregate", "no column 'z' in (x: int, y: int)"),
    sum_of_strings: (SchemaError, "Aggregate", "sum wants a number, but column 'n' is str"),
    input_twice: (CircuitError, "Input", "circuit 'c' has an input 'edge' already"),
    input_of_unknown_type: (SchemaError, "Input", "column 'x': unknown type 'integer'"),
    input_without_columns: (SchemaError, "Input", "columns of 'f' either as schema= or by name"),
    input_of_unknown_kind: (
        SchemaError,
        "Input",
        "kind of 'f' is 'zset' or 'set', not 'bag'; for upserts give key=",
    ),
    input_with_unknown_key: (SchemaError, "Input", "no column 'id' in (x: int)"),
    input_with_key_twice: (SchemaError, "Input", "column 'x' occurs twice in (x, x)"),
    output_twice: (CircuitError, "Output", "circuit 'c' has an output 'out' already"),
    constant_of_wrong_type: (InputError, "Constant", "row 0, column 'y': expected int, got 'a' of type str"),
    constant_of_wrong_weight: (InputError, "Constant", "a weight is an int, not 1.5 of type float"),
    constant_overflow: (
        ValueOutOfRangeError,
        "Constant",
        "column 'y': 9223372036854775808 does not fit 64 bits",
    ),
    undefined_variable: (CircuitError, "Delay", "variable 'path' of fixpoint 'closure' is never defined"),
    variable_defined_twice: (CircuitError, "Delay", "connected already"),
    variable_of_other_types: (
        SchemaError,
        "Delay",
        "variable 'path' has (x: int, y: str) but is given (x: int, y: int)",
    ),
    variable_of_other_arity: (
        SchemaError,
        "Delay",
        "variable 'path' has (x: int) but is given (x: int, y: int)",
    ),
    variable_without_none: (SchemaError, "Delay", "variable 'path' does not allow None in column 'x'"),
    define_something_else: (CircuitError, "Delay", "this is not a variable of scope 'closure'"),
    empty_scope: (CircuitError, "Fixpoint", "the body of 'closure' reads no stream from outside"),
    leave_too_early: (CircuitError, "Leave", "take results out of 'closure' after its with block"),
    leave_another_circuit: (CircuitError, "Leave", "circuits 'other' and 'c'"),
    inner_stream_used_outside: (
        CircuitError,
        "Join",
        "scope 'closure' is complete; outside of it use what scope.leave",
    ),
    inner_stream_handed_out: (
        CircuitError,
        "Output",
        "a stream inside scope 'closure' cannot be used outside of it",
    ),
    streams_of_two_scopes: (CircuitError, "Delay", "a stream inside scope 'one' cannot be used outside"),
    cycle_without_delay: (CircuitError, "Filter", "a cycle must pass through a strict operator (a delay)"),
    feedback_of_other_types: (SchemaError, "Delay", "the delay has (x: int) but is given (x: int, y: int)"),
    feedback_twice: (CircuitError, "Delay", "the input of this delay is connected already"),
    feedback_of_another_circuit: (
        CircuitError,
        "Delay",
        "circuits 'other' and 'c'; connect them inside one circuit",
    ),
    feedback_without_input: (CircuitError, "Delay", "no input; call circuit.connect(feedback, stream)"),
    integrate_in_scope: (CircuitError, "Integrate", "integrating again would never converge"),
    differentiate_in_scope: (CircuitError, "Differentiate", "differentiate outside the fixpoint"),
}


@pytest.mark.parametrize("build", ERRORS, ids=lambda build: build.__name__)
def test_refused_with_the_operator_and_the_line(build: Callable[[Circuit, Stream], None]) -> None:
    kind, operator, message = ERRORS[build]
    with pytest.raises(kind) as caught:
        build(*edges())
    assert type(caught.value) is kind
    text = str(caught.value)
    found = re.match(rf"{operator} at test_graph\.py:(\d+): ", text)
    assert found, text
    assert message in text
    code = build.__code__
    lines = range(code.co_firstlineno, max(line for *_, line in code.co_lines() if line is not None) + 1)
    assert int(found[1]) in lines, text


def test_the_line_is_where_the_operator_was_called() -> None:
    _, e = edges()
    with pytest.raises(SchemaError) as caught:
        e.filter(col("x") > 1).project(
            "z",
        )  # called here
    assert line_of("called here") - 3 < int(str(caught.value).split(":")[1]) <= line_of("called here")


def test_at_names_another_source() -> None:
    circuit, e = edges()
    with (
        circuit.at("rules.dl:7"),
        pytest.raises(SchemaError, match=r"^Project at rules\.dl:7: no column 'z'"),
    ):
        e.project("z")
    assert e.filter(col("x") > 1).node.source.startswith("test_graph.py:")


def test_files_beside_the_package_are_the_users_own(tmp_path: Path) -> None:
    """A path that merely starts like the package's must not be taken for it."""
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
e.project("z")
"""


@pytest.mark.parametrize("code", ["-c", "exec"])
def test_code_that_is_in_no_file_keeps_its_lines(code: str) -> None:
    command = ["-c", CODE] if code == "-c" else ["-c", "import sys; exec(sys.argv[1])", CODE]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.stdout == "<string>:4 <string>:6\n"
    assert "SchemaError: Project at <string>:8: no column 'z'" in done.stderr


def test_a_cycle_without_a_delay_is_found_in_a_graph_wired_by_hand() -> None:
    circuit, e = edges()
    first = e.filter(col("x") > 1)
    second = first + e
    first.node.inputs = (AnyStream(second.node),)
    with pytest.raises(
        CircuitError, match=r"cycle without a delay: Union at test_graph.py:\d+ -> Filter at test_"
    ):
        circuit.validate()


def test_one_name_stands_for_itself_where_several_are_expected() -> None:
    circuit = Circuit()
    left = circuit.input("left", name=str, x=int)
    right = circuit.input("right", name=str, y=int, key="name")
    circuit.output("out", left.join(right, on="name").antijoin(left, on="name"))
    assert circuit.start().outputs["out"].names == ("name", "x", "y")


# --- what a circuit is -------------------------------------------------------------------------------


def test_nodes_remember_where_they_were_made() -> None:
    circuit, e = edges()
    made = e.filter(col("x") > 1)  # made here
    assert made.node.describe() == f"Filter at test_graph.py:{line_of('made here')}"
    assert repr(made) == f"<stream of <c#1 {made.node.label}>: x: int, y: int>"
    assert repr(circuit) == "<circuit 'c': 2 nodes>"
    assert [node.label for node in circuit.walk()] == ["Input edge", 'Filter col("x") > 1']


def test_equal_work_is_done_once() -> None:
    circuit, e = edges()
    for name in "abc":
        circuit.output(name, e.filter(col("x") > 1).distinct().group_by("x").agg(n=count(), low=min_("y")))
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


def test_what_no_output_reads_is_not_run() -> None:
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
        good = e.semijoin(allowed, on=["x"]).filter(col("y") > 0).distinct()
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


def test_an_outer_stream_leaves_a_scope_as_it_is() -> None:
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
