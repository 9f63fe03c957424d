"""Complete programs: after every tick all views and deltas agree with recomputation from
scratch."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.data.terms import Branch, Record
from dbsp.data.types import Structure
from dbsp.operators.recursion import modes
from tests.profiles import examples

from .live_program import FORMS, Change, Subject, as_mappings
from .random_datalog import programs

PROGRAMS = sorted(
    [*Path(__file__).parent.glob("programs/*.dl"), *Path(__file__).parent.glob("programs/live/*.dl")]
)


VALUES: dict[Kind, list[Any]] = {
    Kind.NUMBER: [0, 1, 2, 3],
    Kind.UNSIGNED: [0, 1, 2, 5],
    Kind.FLOAT: [0.0, 0.5, 2.0, -1.25],
    Kind.SYMBOL: ["a", "b", "c", "ab"],
}
"""Few values, so that rows match; sums of the floats are exact in any order."""

PLAIN: dict[str, list[Any]] = {"int": [0, 1], "float": [0.5], "str": ["a", "b"]}
"""The values within records and branches, by the kind of the engine's type."""

OWN_VALUES: dict[str, dict[Kind, list[Any]]] = {
    "arithmetic": {Kind.NUMBER: [-2, -1, 0, 1, 3, 7], Kind.UNSIGNED: [0, 1, 2, 3]},
    "failing": {
        Kind.NUMBER: list(range(9)),
        Kind.UNSIGNED: [1, 2],
        Kind.SYMBOL: ["1", "-7", "08", "12", "33", "go", "x1"],
    },
    "numbers": {Kind.NUMBER: [0, 1, 2, 3, 4, 7, -5, 2**63 - 1, -(2**63)]},
    "strings": {Kind.SYMBOL: ["", "a", "12", "-3", "x", "zebra crossing", "é", "Zoo", "xy"]},
    "types": {Kind.NUMBER: [30, 60, 90]},
    "words": {Kind.SYMBOL: ["", "a", "b", "ab", "ba", "aé", "bab", "Ω"]},
    "wrapping": {
        Kind.NUMBER: [0, 1, -1, 3, -6, 40, 2**31 - 1, -(2**31)],
        Kind.UNSIGNED: [0, 1, 5, 33, 2**31, 2**32 - 1],
        Kind.FLOAT: [0.5, -1.25, 2.0**31, -(2.0**31), 2.0**33, 2.0**63],
        Kind.SYMBOL: ["7", "-2147483648", "2147483647", "2147483648"],
    },
}
"""Other values for some programs, by file name."""


def program_changes(subject: Subject, values: dict[Kind, list[Any]]) -> st.SearchStrategy[list[list[Change]]]:
    """Ticks of changes over a few rows, so that many insertions and retractions have no effect."""

    @st.composite
    def ticks(draw: st.DrawFn) -> list[list[Change]]:
        inputs = [subject.program.relations[name] for name in subject.program.inputs]
        rows = [(relation.name, row) for relation in inputs for row in draw(some_rows(relation, values))]
        loaded = [(name, row, 1) for name, row in rows if draw(st.integers(0, 3))]
        change = st.tuples(st.sampled_from(rows), st.sampled_from([1, -1, -1, 3, -2]))
        drawn = draw(st.lists(st.lists(change, max_size=5), min_size=3, max_size=8))
        return [loaded, *([(name, row, weight) for (name, row), weight in tick] for tick in drawn)]

    return ticks()


def some_rows(relation: Relation, values: dict[Kind, list[Any]]) -> st.SearchStrategy[list[Any]]:
    possible = list(product(*(values_of(attribute.kind, values) for attribute in relation.attributes)))
    return st.lists(st.sampled_from(possible), min_size=min(4, len(possible)), max_size=10, unique=True)


def values_of(kind: AnyKind, values: dict[Kind, list[Any]]) -> list[Any]:
    """Return the values to choose from for a column; records and branches are nested two deep."""
    return values[kind] if isinstance(kind, Kind) else constructed(kind.structure, 2)


def constructed(structure: Structure, depth: int) -> list[Any]:
    """nil, then values made of the first few values of each field."""
    made: list[Any] = [None] if structure.is_record else []
    for constructor in structure.constructors:
        if depth == 0 and any(constructor.layout.nested):
            continue
        choices = [
            PLAIN[field.type.kind]
            if field.type.structure is None
            else constructed(field.type.structure, depth - 1)[:3]
            for field in constructor.fields
        ]
        parts = list(product(*choices))
        made += [Branch(constructor.name, *one) if constructor.name else Record(one) for one in parts]
    return made


@cache
def subject_of(path: Path) -> Subject:
    return Subject(path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_tick_equals_recomputation(path: Path) -> None:
    """The same changes, split into ticks in two ways."""
    subject = subject_of(path)
    values = VALUES | OWN_VALUES.get(path.stem, {})

    @settings(
        max_examples=examples(12),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(program_changes(subject, values), st.sampled_from(FORMS), st.integers(1, 7))
    def check(ticks: list[list[Change]], form: str, size: int) -> None:
        live = subject.start()
        for tick in ticks:
            live.tick(tick, form)
        changes = [change for tick in ticks for change in tick]
        again = subject.start()
        for start in range(0, len(changes), size):
            again.tick(changes[start : start + size], "mapping")

    check()


JOINS = ("bags", "cliques", "cycles", "generations_in_cycles", "joins", "patterns_in_recursion", "triangles")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["binary", "wcoj"])
@pytest.mark.parametrize("name", JOINS)
def test_every_tick_equals_recomputation_by_joins_of_one_kind(name: str, strategy: str) -> None:
    (path,) = (path for path in PROGRAMS if path.stem == name)
    subject = subject_of(path).planned(strategy)

    @settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
    @given(program_changes(subject, VALUES))
    def check(ticks: list[list[Change]]) -> None:
        live = subject.start()
        for tick in ticks:
            live.tick(tick)

    check()


@pytest.mark.slow
@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(), st.data())
def test_random_programs(text: str, data: st.DataObject) -> None:
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)


@pytest.mark.slow
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(kinds=True), st.data())
def test_random_programs_with_opaque_relations(text: str, data: st.DataObject) -> None:
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    live = subject.start(initial)
    for tick in ticks:
        live.tick(tick)


@pytest.mark.slow
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    programs(kinds=True, records=True),
    st.booleans(),
    st.sampled_from(["auto", "incremental", "insert-only"]),
    st.sampled_from([(modes.SHARE, modes.BUDGET), (1.0, 1e-9), (1.1, 1e9)]),
    st.data(),
)
def test_random_programs_of_records_in_every_mode(
    text: str, magic: bool, mode: str, limits: tuple[float, float], data: st.DataObject
) -> None:
    subject = Subject(text, magic=magic, recursion=mode)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("SHARE", "BUDGET", "MANY"), (*limits, 1), strict=True):
            patch.setattr(modes, name, value)
        live = subject.start(initial)
        for tick in ticks:
            live.tick(tick)
            if data.draw(st.booleans()):
                live.run.replan()
                live.check_views()


@pytest.mark.slow
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs(cyclic=True), st.data())
def test_random_cyclic_programs_by_every_plan(text: str, data: st.DataObject) -> None:
    """Binary joins, multi-way joins, and the choices of the planner by shape and by counts."""
    subject = Subject(text)
    initial, *ticks = data.draw(program_changes(subject, VALUES))
    subjects = [subject, subject.planned("binary"), subject.planned("wcoj"), subject.counted(initial)]
    runs = [one.start(initial) for one in subjects]
    for tick in ticks:
        for live in runs:
            live.tick(tick)


def test_short_forms_equal_their_long_forms() -> None:
    """The reference starts from the checked program; this test covers the passes before it."""
    subject = subject_of(Path(__file__).parent / "programs" / "live" / "sugar.dl")
    pairs = [(name, f"{name[:-1]}l") for name in subject.outputs if name.endswith("_s")]
    assert len(pairs) == 16

    @settings(max_examples=examples(8), deadline=None)
    @given(program_changes(subject, VALUES))
    def check(ticks: list[list[Change]]) -> None:
        run = subject.program.start()
        for tick in ticks:
            run.step(as_mappings(tick))
            for short, long in pairs:
                assert run.view(short).to_dict() == run.view(long).to_dict(), short

    check()
