"""Errors of scopes, delays and feedback name the operator and the caller's line."""

from __future__ import annotations

import pytest

from dbsp import Circuit, CircuitError, SchemaError, Stream, col
from tests.circuit.support import PAIR, Build, Refusal, check_refused, edges


def scope_of_another_circuit(c: Circuit, e: Stream) -> None:
    with c.fixpoint("f") as scope:
        v = scope.variable("v", PAIR)
        scope.define(v, e + edges("other")[1])


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


def entered_late(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        path = scope.variable("path", PAIR)
        scope.define(path, (e + path).distinct())
    scope.enter(c.input("late", x=int))


def entering_another_circuit(c: Circuit, e: Stream) -> None:
    with c.fixpoint("closure") as scope:
        scope.delta0(Circuit("other").input("a", x=int))


ERRORS: dict[Build, Refusal] = {
    scope_of_another_circuit: (
        CircuitError,
        "Union",
        "circuits, 'other' and 'c'; build both in one circuit [different-circuits]",
    ),
    undefined_variable: (CircuitError, "Delay", "variable 'path' of fixpoint 'closure' is never defined"),
    variable_defined_twice: (
        CircuitError,
        "Delay",
        "already has an input; define or connect it",
    ),
    variable_of_other_types: (
        SchemaError,
        "Delay",
        "variable 'path' expects (x: int, y: str), got (x: int, y: int)",
    ),
    variable_of_other_arity: (
        SchemaError,
        "Delay",
        "variable 'path' expects (x: int), got (x: int, y: int)",
    ),
    variable_without_none: (SchemaError, "Delay", "variable 'path' does not allow None in column 'x'"),
    define_something_else: (
        CircuitError,
        "Delay",
        "define expects a variable of scope 'closure', got another stream",
    ),
    empty_scope: (CircuitError, "Fixpoint", "the body of 'closure' reads no stream from outside"),
    leave_too_early: (
        CircuitError,
        "Leave",
        "scope 'closure' is not complete; call leave() after its with block",
    ),
    leave_another_circuit: (CircuitError, "Leave", "circuits, 'other' and 'c'"),
    inner_stream_used_outside: (
        CircuitError,
        "Join",
        "scope 'closure' is complete; outside of the scope, use the stream that",
    ),
    inner_stream_handed_out: (
        CircuitError,
        "Output",
        "a stream inside scope 'closure' cannot be used outside it; use scope.leave(stream) instead [scope",
    ),
    streams_of_two_scopes: (CircuitError, "Delay", "a stream inside scope 'one' cannot be used outside"),
    cycle_without_delay: (CircuitError, "Filter", "expected a delay to close the cycle at"),
    feedback_of_other_types: (SchemaError, "Delay", "the delay expects (x: int), got (x: int, y: int)"),
    feedback_twice: (CircuitError, "Delay", "Delay already has an input; define or connect it once"),
    feedback_of_another_circuit: (
        CircuitError,
        "Delay",
        "the inputs belong to different circuits, 'other' and 'c'; build both in one circuit",
    ),
    feedback_without_input: (CircuitError, "Delay", "no input; call circuit.connect(feedback, stream)"),
    entered_late: (CircuitError, "Delta0", "scope 'closure' is complete; outside of the scope, use the"),
    entering_another_circuit: (CircuitError, "Delta0", "circuits, 'other' and 'c'"),
}


@pytest.mark.parametrize("build", ERRORS, ids=lambda build: build.__name__)
def test_refused_with_the_operator_and_the_line(build: Build) -> None:
    check_refused(build, *ERRORS[build])
