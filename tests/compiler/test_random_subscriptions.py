"""Subscriptions of random programs: their deltas always sum to what recomputation finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import DbspError, Run
from dbsp.compiler.program import Program
from dbsp.runtime.run_subscription import RunSubscription
from tests.profiles import examples
from tests.random_datalog import CONSTANTS, INPUTS, NAMES, Derived, programs, rule_text
from tests.random_edits import versions

Rows = dict[tuple[Any, ...], int]


@dataclass
class Follower:
    """A subscription, and the sum of its deltas so far."""

    target: str
    subscription: RunSubscription
    rows: Counter[tuple[Any, ...]]

    def receive(self) -> None:
        for place, delta in enumerate(self.subscription.deltas()):
            assert delta.to_dict() or (place == 0 and not self.rows), "an empty delta"
            self.rows.update(delta.to_dict())

    @property
    def sum(self) -> Rows:
        return {row: weight for row, weight in self.rows.items() if weight}


def wanted(program: Program, run: Run, target: str) -> Rows:
    """Return the rows of a relation or a query, computed from the rows of the inputs alone."""
    session = program.state(run)
    return (session.rows(target) if target in program.relations else session.ask(target)).to_dict()


def check(program: Program, run: Run, followers: list[Follower]) -> None:
    for each in list(followers):
        try:
            expected = wanted(program, run, each.target)
        except DbspError as error:
            assert type(each.subscription.error) is type(error), each.target
            followers.remove(each)
            event("ended by an error")
            continue
        each.receive()
        assert each.subscription.view().to_dict() == expected, each.target
        assert each.sum == expected, each.target


def begin(program: Program, run: Run, target: str, followers: list[Follower]) -> None:
    try:
        expected = wanted(program, run, target)
    except DbspError as error:
        try:
            subscription = run.subscribe(target)
        except DbspError as refusal:
            assert type(refusal) is type(error), target
            event(f"refused with {type(refusal).__name__}")
        else:
            raise AssertionError(f"{target}: expected {error}, got {subscription.view()}")
        return
    subscription = run.subscribe(target)
    assert subscription.view().to_dict() == expected, target
    event("a relation" if target in program.relations else "a query")
    if run._live is not None and any(part.live.replays for part in run._live._parts._parts.values()):
        event("a part that replays")
    followers.append(Follower(target, subscription, Counter()))


RELATIONS = (*INPUTS, *NAMES, "o")
KNOWN = [Derived(name, 2, 0) for name in NAMES]


@st.composite
def targets(draw: st.DrawFn) -> str:
    """Draw a relation, or the body of a rule; some do not fit a program."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(RELATIONS))
    rule = rule_text(draw, Derived("q", 1, 1), [*KNOWN, Derived("p", 2, 1)])
    return rule.partition(" :- ")[2].removesuffix(".")


@st.composite
def row_changes(draw: st.DrawFn) -> dict[str, Rows]:
    values = st.sampled_from([int(each) for each in CONSTANTS])
    return {
        name: draw(st.dictionaries(st.tuples(*[values] * arity), st.sampled_from([1, 1, -1]), max_size=4))
        for name, arity in INPUTS.items()
    }


actions = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), targets()),
        st.tuples(st.just("subscribe"), targets()),
        st.tuples(st.just("step"), row_changes()),
        st.tuples(st.just("step"), row_changes()),
        st.tuples(st.just("close"), st.integers(0, 9)),
        st.tuples(st.just("transaction"), st.lists(row_changes(), min_size=1, max_size=3)),
        st.tuples(st.just("undone"), st.lists(row_changes(), min_size=1, max_size=2)),
        st.tuples(st.sampled_from(["replan", "compact", "update"]), st.none()),
    ),
    min_size=6,
    max_size=16,
)


class Undone(Exception):
    """Ends a transaction."""


def follow(texts: list[str], todo: list[tuple[str, Any]], **options: Any) -> None:
    """Carry out the actions on a run, and check all subscriptions after each of them."""
    compiled = [dbsp.compile(text, **options) for text in texts]
    program = compiled.pop(0)
    run = program.start()
    followers: list[Follower] = []
    for action, argument in todo:
        if action == "subscribe":
            if argument in program.relations or argument not in RELATIONS:
                begin(program, run, argument, followers)
        elif action == "close" and followers:
            followers.pop(argument % len(followers)).subscription.close()
        elif action == "step":
            run.step(argument)
        elif action in ("transaction", "undone"):
            try:
                with run.transaction() as transaction:
                    for changes in argument:
                        transaction.step(changes)
                    if action == "undone":
                        raise Undone
            except Undone:
                event("a transaction was undone")
        elif action == "update" and compiled:
            program = compiled.pop(0)
            run.update(program)
            event("an update")
        elif action == "replan":
            run.replan()
        elif action == "compact":
            run.compact()
        check(program, run, followers)
        assert set(run.subscriptions) == {each.subscription for each in followers}
    for each in followers:
        each.subscription.close()
    assert not run._live or not (run._live.scopes or run.scope._held), "something was not freed"


@settings(max_examples=examples(40))
@given(programs() | programs(hidden=True) | programs(cyclic=True), actions)
def test_deltas_sum_to_the_rows(text: str, todo: list[tuple[str, Any]]) -> None:
    follow([text], todo)


@settings(max_examples=examples(25))
@given(versions(3) | versions(3, kinds=True), actions)
def test_subscriptions_survive_updates(texts: list[str], todo: list[tuple[str, Any]]) -> None:
    follow(texts, todo)


@settings(max_examples=examples(15))
@given(programs(hidden=True), actions)
def test_relations_on_demand(text: str, todo: list[tuple[str, Any]]) -> None:
    follow([text], todo, magic=True)
