"""A circuit that would store rows of the facts alone is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from dbsp import Circuit, col, count
from dbsp.compiler.datalog.circuits.external_rows import check_external_rows
from dbsp.errors import InvariantError
from dbsp.operators.streams.multiway_atoms import multiway_join
from dbsp.operators.streams.stream import Stream

Build: TypeAlias = Callable[[Stream, Stream, Stream], Stream]


def check(build: Build) -> None:
    circuit = Circuit("query")
    query = circuit.input("query", x=int)
    friend = circuit.input("friend", a=int, b=int, kind="external")
    likes = circuit.input("likes", a=int, b=int, kind="external")
    circuit.output("found", build(query, friend, likes))
    check_external_rows(circuit.circuit("physical"))


def joined(query: Stream, friend: Stream, likes: Stream) -> Stream:
    return query.join(friend, on=[("x", "a")])


STORED: dict[str, Build] = {
    "a join": joined,
    "a multi-way join": lambda query, friend, likes: multiway_join(
        [query("x"), friend("x", "y"), likes("y", "z")], ("x", "z")
    ),
    "a condition on facts without a partner": lambda query, friend, likes: friend.join(
        query, on=[("a", "x")], how="anti"
    ).filter(col("b") > 1),
    "distinct rows of a join": lambda *streams: joined(*streams).distinct(),
    "distinct rows of a set": lambda query, friend, likes: friend.distinct(),
    "groups of a join": lambda *streams: joined(*streams).group_by("x").agg(n=count()),
}
REFUSED: dict[str, Build] = {
    "a projection": lambda query, friend, likes: friend.map(x=col("a")).distinct(),
    "a projection in a join": lambda query, friend, likes: query.join(
        friend.map(x=col("a")).distinct(), on="x"
    ),
    "a projection in an antijoin": lambda query, friend, likes: query.join(
        likes, on=[("x", "a")], how="anti"
    ),
    "a union": lambda query, friend, likes: (friend + likes).map(x=col("a")).distinct(),
    "groups": lambda query, friend, likes: friend.group_by("a").agg(n=count()),
    "a join of facts": lambda query, friend, likes: friend.join(likes, on="a").distinct(),
    "a filter": lambda query, friend, likes: query.join(
        friend.filter(lambda row: row.a > 1), on=[("x", "a")]
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_rows_that_depend_on_the_query_may_be_stored(name: str) -> None:
    check(STORED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_rows_of_the_facts_alone_may_not_be_stored(name: str) -> None:
    with pytest.raises(InvariantError, match="would store rows that come from the facts alone"):
        check(REFUSED[name])


@pytest.mark.parametrize("guarded", [True, False])
def test_a_recursion_over_the_facts_starts_from_the_query(guarded: bool) -> None:
    circuit = Circuit("query")
    query = circuit.input("query", x=int)
    friend = circuit.input("friend", a=int, b=int, kind="external")
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", friend.schema)
        first = query.join(friend, on=[("x", "a")]).map(a=col("x"), b=col("b")) if guarded else friend
        step = path.join(friend, on=[("b", "a")], select=["a", "b_right"]).rename(b="b_right")
        scope.define(path, (first + step).distinct())
    circuit.output("found", scope.leave(path))
    graph = circuit.circuit("physical")
    if guarded:
        check_external_rows(graph)
    else:
        with pytest.raises(InvariantError, match="would store rows"):
            check_external_rows(graph)
