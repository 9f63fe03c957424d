"""Arguments that do not fit raise an error that says what is expected, with a code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbsp import (
    ArgumentError,
    CircuitError,
    DbspError,
    SchemaError,
    ValueOutOfRangeError,
    col,
    count,
    fold,
    linear,
    when,
)
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.multiway_atoms import multiway_join
from dbsp.operators.streams.stream import Stream

Build = Callable[[Circuit, Any], object]

NAMES: list[tuple[Build, str]] = [
    (
        lambda c, a: a.select(["x", "s"]),
        """select expects column names such as select("a", "b"), got ['x', 's'] of type list; """
        "pass each name as one argument",
    ),
    (
        lambda c, a: a.group_by(["x", "s"]),
        """group_by expects column names such as group_by("a", "b"), got ['x', 's'] of type list; """
        "pass each name as one argument",
    ),
    (
        lambda c, a: a.group_by(col("x") + 1),
        'group_by expects a name for the expression col("x") + 1, such as group_by(name=col("x") + 1)',
    ),
    (lambda c, a: a.widen(["x"]), """widen expects column names such as widen("a", "b"), got ['x']"""),
    (lambda c, a: a.rename(z=5), """rename expects column names such as rename(new="old"), got 5"""),
    (
        lambda c, a: a.rename({"x": "z"}),
        """new names for old ones, such as rename(new="old"), got {'x': 'z'}""",
    ),
    (
        lambda c, a: a.filter(col("x") > 1, col("x") < 3),
        "filter expects one condition, got 2; join them, as in",
    ),
    (lambda c, a: a.top_k(1, by=5), "by= expects a column name or a list of column names, got 5 of type int"),
    (lambda c, a: a.rank("x", partition=5), "partition= expects a column name or a list of column names"),
    (lambda c, a: a.lag("x", by="x", partition=[5]), "partition= expects a column name or a list"),
    (lambda c, a: a.rolling("x", 1, partition=5, n=count()), "partition= expects a column name or a list"),
    (lambda c, a: a.number_rows(by=5), "by= expects a column name or a list of column names, got 5"),
    (lambda c, a: a.choice_domain(5), "choice_domain expects a column name or a list of column names, got 5"),
    (lambda c, a: a.sample(0.5, on=5), "on= expects a column name or a list of column names, got 5"),
    (
        lambda c, a: a.join(a, on=5),
        "on= expects column names, or pairs (name on the left, name on the right)",
    ),
    (
        lambda c, a: a.group_by("s").agg(col("x").sum()),
        'agg expects a name for each aggregate, such as total=col("x").sum(), got col("x").sum() without',
    ),
    (lambda c, a: c.output([], a), "the name of an output: expected a string, got [] of type list"),
    (lambda c, a: c.input([], x=int), "the name of an input: expected a string, got [] of type list"),
    (lambda c, a: multiway_join([a("x", "s")], select=5), "select= expects a column name or a list"),
    (lambda c, a: multiway_join([a("x", "s")], let=5), "let=: expected a list of pairs (name, expression)"),
    (
        lambda c, a: multiway_join([a("x", "s")], let=[5]),
        "let=: expected a mapping from names to expressions, or pairs of both, got 5 of type int",
    ),
    (
        lambda c, a: multiway_join([a("x", "s")], orders=5),
        "orders=: expected a list of lists of variables, got 5 of type int",
    ),
    (lambda c, a: multiway_join([a("x", "s")], orders=[5]), "an order of orders= expects a column name or"),
    (lambda c, a: a.join(a, on=[("x", 5)]), """such as on=["id", ("a", "b")]; got ('x', 5) of type tuple"""),
]

STREAMS: list[tuple[Build, str]] = [
    (lambda c, a: c.output("out", 5), "output expects a stream, as circuit.input() and the methods of a"),
    (lambda c, a: a.union(5), "union expects a stream"),
    (lambda c, a: a + 5, "union expects a stream"),
    (lambda c, a: a - 5, "a difference expects a stream"),
    (lambda c, a: a.join("b", on="x"), "join expects a stream"),
    (lambda c, a: a.join("b", on="x", how="left"), "join expects a stream"),
    (lambda c, a: a.range_join("b", left="x", right="x"), "range_join expects a stream"),
    (lambda c, a: a.interval_join("b", left="x", first="x", last="y"), "interval_join expects a stream"),
    (lambda c, a: a.asof_join("b", left="x", right="x"), "asof_join expects a stream"),
    (lambda c, a: a.join("b", on="x", how="semi"), "join expects a stream"),
    (
        lambda c, a: a.join("b", on="x", how="anti"),
        "join expects a stream, as circuit.input() and the methods",
    ),
    (lambda c, a: c.connect(c.feedback(a.schema), 5), "connect expects a stream"),
    (lambda c, a: c.iterate("i", 5, lambda s: s), "iterate expects a stream"),
    (lambda c, a: c.fixpoint("f").define(a, 5), "define expects a stream"),
    (lambda c, a: c.fixpoint("f").leave(5), "leave expects a stream"),
    (lambda c, a: a.group_by("x").final(5, "x", n=count()), "final expects a stream"),
]

OPTIONS: list[tuple[Build, str]] = [
    (
        lambda c, a: c.input("r", key=int),
        "key= expects the name of a key column or a list of names, got <class 'int'>; for a column called "
        "'key' give all columns as schema={'key': int, ...}",
    ),
    (lambda c, a: c.input("r", x=int, key=[int]), "give all columns as schema={'key': int, ...}"),
    (
        lambda c, a: c.input("r", kind=str),
        "kind= expects 'zset' or 'set', got <class 'str'>; for a column called 'kind' give all columns as "
        "schema={'kind': str, ...}",
    ),
    (lambda c, a: c.input("r", kind=int | None), "as schema={'kind': int | None, ...}"),
    (
        lambda c, a: c.start("fast"),
        "stage= expects one of 'query', 'incremental', 'physical', 'distributed', got 'fast'",
    ),
    (lambda c, a: c.circuit("fast"), "stage= expects one of 'query', 'incremental', 'physical'"),
    (lambda c, a: a.group_by("x").agg(n=count), "; add the parentheses of the call"),
    (
        lambda c, a: c.output("out", a.group_by("x")),
        "by (x)> of type Grouped; call .agg(...) on it first",
    ),
    (lambda c, a: a.inspect(5), "inspect expects a function of a delta, got 5"),
    (lambda c, a: a.group_by("x").agg(n=5), "agg expects an aggregate such as n=count(), got n=5"),
]


RUNS: list[tuple[Build, str]] = [
    (lambda c, a: c.same_as(5), "other: expected a circuit, got 5 of type int"),
    (lambda c, a: c.explain("physical"), "run: expected a run of the circuit, got 'physical' of type str"),
    (lambda c, a: c.fixpoint("f", max_iterations=0), "max_iterations: expected a number of 1 or more, got 0"),
    (lambda c, a: c.fixpoint("f", max_iterations="9"), "a number of 1 or more, got '9' of type str"),
    (lambda c, a: c.start(checkpoint=5), "checkpoint: expected a folder or a Store, got 5 of type int"),
    (lambda c, a: c.start().replan("x"), "circuit: expected a physical circuit of the same query, got 'x'"),
]


@pytest.mark.parametrize(("build", "message"), RUNS)
def test_a_wrong_argument_outside_of_operators_is_an_argument_error(build: Build, message: str) -> None:
    circuit = Circuit("c")
    stream = circuit.input("a", x=int, s=str)
    with pytest.raises(ArgumentError) as caught:
        build(circuit, stream)
    assert message in str(caught.value)
    assert str(caught.value).endswith(" [invalid-argument]")


@pytest.mark.parametrize(("build", "message"), [*NAMES, *STREAMS, *OPTIONS])
def test_a_wrong_argument_is_an_argument_error(build: Build, message: str) -> None:
    circuit = Circuit("c")
    stream = circuit.input("a", x=int, s=str)
    with pytest.raises(ArgumentError) as caught:
        build(circuit, stream)
    assert message in str(caught.value)
    assert str(caught.value).endswith(" [invalid-argument]")
    if "stage=" not in message:
        assert "test_argument_errors.py:" in str(caught.value.where)


CODES: list[tuple[Build, type[DbspError], str, str]] = [
    (lambda c, a: a.filter(5), SchemaError, "invalid-expression", "or a function of a row; got 5"),
    (lambda c, a: a.filter(col("x")), SchemaError, "invalid-expression", "has type int"),
    (lambda c, a: a.map(), SchemaError, "invalid-argument", "map needs at least one column"),
    (lambda c, a: a.map(len), SchemaError, "invalid-argument", "either a function and the schema"),
    (
        lambda c, a: a.map(v=when(col("x") > 1).then(2)),
        ArgumentError,
        "invalid-expression",
        'got when(col("x") > 1).then(2) of type Then; add .otherwise(value), for example .otherwise(None)',
    ),
    (
        lambda c, a: a.map(v=when(col("x") > 1)),
        ArgumentError,
        "invalid-expression",
        'got when(col("x") > 1) of type When; add .then(value).otherwise(value)',
    ),
    (
        lambda c, a: a.map(v=col("x").sum() + 1),
        SchemaError,
        "invalid-expression",
        'col("x").sum() is an aggregate and has no value for one row; use it in group_by(...).agg(...) or',
    ),
    (lambda c, a: a.map(v=len), ArgumentError, "invalid-expression", "expected an expression such as col("),
    (lambda c, a: a.map(v=int), ArgumentError, "invalid-expression", "got <class 'int'> of type type"),
    (lambda c, a: a.filter(col("x") == a), ArgumentError, "invalid-expression", "of type Stream"),
    (
        lambda c, a: a.group_by("x").agg(v=(col("x") + a).sum()),
        ArgumentError,
        "invalid-expression",
        "of type Stream",
    ),
    (
        lambda c, a: a.filter(col("s") == None),  # noqa: E711
        ArgumentError,
        "invalid-expression",
        'col("s") == None is never true, because a comparison with None is None; use col("s").is_null()',
    ),
    (
        lambda c, a: a.filter(col("s") != None),  # noqa: E711
        ArgumentError,
        "invalid-expression",
        'use ~col("s").is_null()',
    ),
    (
        lambda c, a: a.join(a.rename(y="x", t="s"), on=("x", "y")),
        SchemaError,
        "unknown-column",
        "to pair columns of different names, write on=[('x', 'y')]",
    ),
    (
        lambda c, a: a.join(a.rename(y="x", t="s"), on={"x": "y", "s": "t"}),
        ArgumentError,
        "invalid-argument",
        "got {'x': 'y', 's': 't'}; write on=[('x', 'y'), ('s', 't')]",
    ),
    (lambda c, a: a.join(a, on={"x": "s"}), ArgumentError, "invalid-argument", "write on=[('x', 's')]"),
    (lambda c, a: a.join(a.rename(y="x", t="s"), on=[("x", "z")]), SchemaError, "unknown-column", "on=: unk"),
    (
        lambda c, a: a.join(Circuit("c").input("a", x=int), on="x"),
        CircuitError,
        "different-circuits",
        "the inputs belong to different circuits, both called 'c'; build both in one circuit",
    ),
    (lambda c, a: a.generate_series("x", 1.5), SchemaError, "invalid-expression", "all int or all float"),
    (lambda c, a: a.preceded(), SchemaError, "schema-mismatch", "columns of two rows of the same types"),
    (lambda c, a: a.equivalence_classes(), SchemaError, "schema-mismatch", "two columns of one type"),
    (lambda c, a: a + a.select("x"), SchemaError, "schema-mismatch", "columns of the streams differ"),
    (lambda c, a: a.at_least(0), SchemaError, "invalid-argument", "a weight of 1 or more, got 0"),
    (lambda c, a: a.choice_domain(), SchemaError, "invalid-argument", "needs one or more domains"),
    (lambda c, a: a.number_rows(step=0), SchemaError, "invalid-argument", "step= of 1 or more"),
    (lambda c, a: a.sample("all"), SchemaError, "invalid-argument", "between 0 and 1, got 'all'"),
    (lambda c, a: a.scale(0.5), SchemaError, "invalid-argument", "scale expects an int"),
    (lambda c, a: a.top_k(0, "x"), SchemaError, "invalid-argument", "1 or more, got 0"),
    (lambda c, a: a.top_k("3", "x"), SchemaError, "invalid-argument", "1 or more, got '3'"),
    (lambda c, a: a.top_k(1, []), SchemaError, "invalid-argument", "by= needs at least one column"),
    (lambda c, a: a.rank("x", descending=5), SchemaError, "invalid-argument", "each of the 1 columns of by="),
    (lambda c, a: a.lead("x", "2", by="x"), SchemaError, "invalid-argument", "n below 2**31, got '2'"),
    (lambda c, a: a.join(a, on="x", select=["z"]), SchemaError, "unknown-column", "no column 'z'; its"),
    (
        lambda c, a: a.join(a, on=[("x", "x"), ("s", "x")]),
        SchemaError,
        "invalid-join-key",
        "cannot compare 'x: int' with 's: str'",
    ),
    (
        lambda c, a: a.map(x=col("x"), x_right=col("x")).join(a, on=[]),
        SchemaError,
        "duplicate-column",
        "'x_right' would occur twice",
    ),
    (
        lambda c, a: a.join(a, on=["x", "x"], how="full"),
        SchemaError,
        "invalid-join-key",
        "a column occurs twice",
    ),
    (
        lambda c, a: a.range_join(a, on="x", left="x", right="x"),
        SchemaError,
        "invalid-join-key",
        "compare others with where=",
    ),
    (
        lambda c, a: a.interval_join(a, on="x", left="x", first="x", last="x"),
        SchemaError,
        "invalid-join-key",
        "occurs twice in on=, left= and first=; name each column once, and compare others with where=",
    ),
    (
        lambda c, a: a.asof_join(a, on="x", left="x", right="x"),
        SchemaError,
        "invalid-join-key",
        "a column occurs twice",
    ),
    (lambda c, a: a.group_by("x").agg(), SchemaError, "invalid-aggregate", "at least one aggregate"),
    (lambda c, a: a.group_by("x").agg(x=count()), SchemaError, "duplicate-column", "already a grouping"),
    (
        lambda c, a: a.group_by("x").agg(m=col("s").mean()),
        SchemaError,
        "invalid-aggregate",
        "mean 'm' expects an int",
    ),
    (lambda c, a: col("x").quantile(1.5), SchemaError, "invalid-aggregate", "q between 0 and 1, got 1.5"),
    (lambda c, a: fold(len, type=int), SchemaError, "invalid-aggregate", "fold needs at least one"),
    (lambda c, a: linear(len, type=int), SchemaError, "invalid-aggregate", "linear needs at least one"),
    (lambda c, a: a.rolling("x", 1, x=count()), SchemaError, "duplicate-column", "already a column"),
    (lambda c, a: a.rolling("x", -1, n=count()), SchemaError, "invalid-window", "not negative, got -1"),
    (lambda c, a: a.rolling("x", None, n=count()), SchemaError, "invalid-window", "not negative, got None"),
    (lambda c, a: a.rolling("x", 2**70, n=count()), ValueOutOfRangeError, "value-out-of-range", "size=11805"),
    (lambda c, a: a.rank("x", name=["q"]), ArgumentError, "invalid-argument", "got ['q'] of type list"),
    (lambda c, a: a.lag("x", by="x", name=["q"]), ArgumentError, "invalid-argument", "name of a column: exp"),
    (lambda c, a: a.number_rows(name={"q"}), ArgumentError, "invalid-argument", "got {'q'} of type set"),
    (
        lambda c, a: a.number_rows(first={}),
        ArgumentError,
        "invalid-argument",
        "expected an int, got {}",
    ),
    (lambda c, a: a.sample(0.5, "a"), ArgumentError, "invalid-argument", "seed: expected an int, got 'a'"),
    (lambda c, a: a.assert_nonnegative({}), ArgumentError, "invalid-argument", "name: expected the name of"),
    (
        lambda c, a: a.map(5, a.schema),
        ArgumentError,
        "invalid-argument",
        "expected a function, got 5",
    ),
    (lambda c, a: a.flat_map(5, a.schema), ArgumentError, "invalid-argument", "expected a function, got 5"),
    (lambda c, a: a.try_map(5, a.schema), ArgumentError, "invalid-argument", "expected a function, got 5"),
    (
        lambda c, a: c.iterate("i", a, 5),
        ArgumentError,
        "invalid-argument",
        "expected a function, got 5",
    ),
    (
        lambda c, a: a.window("x", 1, names=None),
        ArgumentError,
        "invalid-argument",
        "two columns, got None",
    ),
    (lambda c, a: a.session_window("x", 1, names=("a",)), ArgumentError, "invalid-argument", "got ('a',) of"),
    (lambda c, a: col("x").first({"x"}), ArgumentError, "invalid-argument", "by: expected a column name or"),
    (
        lambda c, a: a.group_by("x").final(a.watermark("x", 0).watermark, ["x"], n=count()),
        SchemaError,
        "invalid-window",
        "closes= expects a grouping column, so that a group has one end; got ['x']",
    ),
    (
        lambda c, a: multiway_join([a("v", "w")], where=None),  # type: ignore[arg-type]
        SchemaError,
        "invalid-expression",
        "where= expects conditions such as col('a') < col('b'), got None",
    ),
    (
        lambda c, a: a.window("x", 2**62, 1),
        SchemaError,
        "invalid-window",
        "the maximum is 10,000,000, so cho",
    ),
    (lambda c, a: a.window("x", 0), SchemaError, "invalid-window", "size= expects a length of time above 0"),
    (lambda c, a: a.window("s", 1), SchemaError, "invalid-event-time", "an event time is an int, date or"),
    (
        lambda c, a: a.widen("x").watermark("x", 1),
        SchemaError,
        "invalid-event-time",
        "the event time 'x: int?' may be None",
    ),
    (
        lambda c, a: a.group_by("s").final(a.watermark("x", 1).watermark, "x", n=count()),
        SchemaError,
        "invalid-window",
        "closes= expects a grouping column, so that a group has one end; got 'x'",
    ),
    (
        lambda c, a: a.group_by("s").final(a.watermark("x", 1).watermark, "s", n=count()),
        SchemaError,
        "invalid-event-time",
        "needs a watermark of the same type, got (watermark: int)",
    ),
    (lambda c, a: c.input("a", x=int), CircuitError, "duplicate-name", "already has an input 'a'"),
    (lambda c, a: c.input("b"), SchemaError, "invalid-argument", "expected the columns of 'b'"),
    (lambda c, a: c.input("b", x=int, kind="bag"), SchemaError, "invalid-argument", "got 'bag'"),
    (
        lambda c, a: c.connect(c.feedback({"x": str}), a.select("x")),
        SchemaError,
        "schema-mismatch",
        "the delay expects (x: str), got (x: int)",
    ),
    (
        lambda c, a: c.connect(c.feedback(a.schema), a.widen("x")),
        SchemaError,
        "schema-mismatch",
        "the delay does not allow None in column 'x', got type int?; declare the column as int?",
    ),
    (lambda c, a: (c.feedback(a.schema), c.validate()), CircuitError, "incomplete-circuit", "has no input"),
    (lambda c, a: a("x"), SchemaError, "wrong-arity", "needs one term per column, got 1"),
    (lambda c, a: a("x", col("y")), SchemaError, "invalid-expression", "a variable or a constant"),
    (lambda c, a: multiway_join([]), SchemaError, "invalid-argument", "needs at least one atom"),
    (lambda c, a: multiway_join([a]), SchemaError, "invalid-argument", "expects a list of atoms"),
    (
        lambda c, a: multiway_join([a("v", "w")], where=[5]),  # type: ignore[list-item]
        SchemaError,
        "invalid-expression",
        "where= expects conditions",
    ),
]


@pytest.mark.parametrize(("build", "kind", "code", "message"), CODES)
def test_errors_have_a_code_of_their_cause(
    build: Build, kind: type[DbspError], code: str, message: str
) -> None:
    circuit = Circuit("c")
    stream = circuit.input("a", x=int, s=str)
    with pytest.raises(kind) as caught:
        build(circuit, stream)
    assert message in caught.value.message
    assert caught.value.code == code


def test_errors_of_scopes_say_where_to_call() -> None:
    circuit = Circuit("c")
    a = circuit.input("a", x=int)
    refused: list[tuple[Callable[[Stream], object], str]] = [
        (lambda v: v.watermark("x", 1), "call watermark() on a stream outside the fixpoint"),
        (lambda v: v.group_by("x").final(a, "x", n=count()), "call final() on a stream outside the fixpoint"),
        (lambda v: scope.leave(v), "scope 'f' is not complete; call leave() after its with block"),
        (lambda v: scope.define(a, v), "define expects a variable of scope 'f', got another stream"),
    ]
    with circuit.fixpoint("f") as scope:
        v = scope.variable("v", a.schema)
        for build, message in refused:
            with pytest.raises(CircuitError) as caught:
                build(v)
            assert message in caught.value.message
            assert caught.value.code == "scope-misuse"
        scope.define(v, (v + a).distinct())
    with pytest.raises(CircuitError) as caught, circuit.fixpoint("empty") as empty:
        w = empty.variable("w", a.schema)
        empty.define(w, w.distinct())
    assert caught.value.code == "incomplete-circuit"
    with circuit.fixpoint("numbers") as numbers:
        u = numbers.variable("u", a.schema)
        numbers.define(u, (u + a).number_rows().select("x").distinct())
    circuit.output("out", numbers.leave(u))
    with pytest.raises(CircuitError) as caught:
        circuit.start()
    assert "call number_rows() on a stream outside the fixpoint" in caught.value.message
    assert caught.value.code == "scope-misuse"


def test_the_reprs_of_groups_and_of_scopes() -> None:
    circuit = Circuit("c")
    a = circuit.input("a", x=int, s=str)
    assert repr(a.group_by("x", "s")) == f"<groups of {a!r} by (x, s)>"
    with circuit.fixpoint("f") as scope:
        assert repr(scope) == "<fixpoint 'f' of <circuit 'c': 1 node>: under construction>"
        v = scope.variable("v", a.schema)
        scope.define(v, (v + a).distinct())
    assert repr(scope) == "<fixpoint 'f' of <circuit 'c': 2 nodes>: complete>"
    assert repr(col("x").sum()) == 'col("x").sum()' and repr(count()) == "count()"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sum", "write .agg(name=col(...).sum())"),
        ("avg", "write .agg(name=col(...).mean())"),
        ("size", "write .agg(n=count())"),
        ("head", "write s.top_k(n, by=..., partition=...)"),
        ("having", 'write .agg(n=count()).filter(col("n") > 1)'),
        ("apply", "write .agg(name=aggregate)"),
    ],
)
def test_an_unknown_attribute_of_groups(name: str, advice: str) -> None:
    groups = Circuit("c").input("a", x=int, s=str).group_by("s")
    with pytest.raises(AttributeError) as caught:
        getattr(groups, name)
    assert str(caught.value).startswith(f"the groups of a stream have no '{name}'; {advice}")
