"""Check that all stages of a circuit agree: apply the same random changes to each, tick by tick."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from dbsp.circuit.stage import Stage
from dbsp.data.schema import Schema
from dbsp.data.terms import Branch, Record
from dbsp.data.types import Structure, Type
from dbsp.errors import DbspError
from dbsp.runtime.run import Run


class Disagreement(DbspError):
    """Two stages of one circuit returned different results; the message lists the changes."""

    code = "disagreement"


def check_agreement(
    start: Callable[[Stage], Run],
    ticks: int,
    *,
    seed: int = 0,
    values: int = 4,
    progress: Callable[[int], None] = lambda tick: None,
) -> int:
    """Apply `ticks` random changes to a run of every stage; return the number of output rows.

    Each column has one of `values` different values, so that rows join; about a third of the
    changes are deletions. Changes that an operator refuses, for example for a division by zero,
    must be refused by every stage. Raises Disagreement at the first tick in which a delta or a view
    differs.
    """
    draw = random.Random(seed)
    runs = {stage: start(stage) for stage in Stage}
    inputs = runs[Stage.PHYSICAL].inputs
    rows = 0
    history: list[Mapping[str, dict[Any, int]]] = []
    for tick in range(ticks):
        changes = random_changes(draw, inputs, values)
        history.append(changes)
        results = {stage: _answer(run, changes) for stage, run in runs.items()}
        expected = results[Stage.QUERY]
        for stage, result in results.items():
            if result != expected:
                raise Disagreement(
                    f"in tick {tick + 1} the {stage} circuit returned\n  {_answer_text(result)}\n"
                    f"and the query circuit returned\n  {_answer_text(expected)}\nafter the changes\n"
                    + "\n".join(f"  {change}" for change in history)
                )
        if not isinstance(expected, str):
            rows += sum(len(delta) for delta, _ in expected.values())
        progress(tick + 1)
    return rows


Answer = dict[str, tuple[dict[Any, int], dict[Any, int]]] | str


def _answer(run: Run, changes: Mapping[str, dict[Any, int]]) -> Answer:
    """Return the delta and the view of every output, or the class of the error of the tick."""
    try:
        result = run.step(changes)
    except DbspError as error:
        return type(error).__name__
    return {name: (delta.to_dict(), run.view(name).to_dict()) for name, delta in result.items()}


def _answer_text(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    return ", ".join(f"{name}: {delta}" for name, (delta, _) in answer.items())


def random_changes(
    draw: random.Random, inputs: Mapping[str, Schema], values: int
) -> dict[str, dict[Any, int]]:
    """Return changes of the inputs, whose columns have so many different values."""
    return {name: _change(draw, schema, values) for name, schema in inputs.items()}


def _change(draw: random.Random, schema: Schema, values: int) -> dict[Any, int]:
    rows = (
        tuple(_value(draw, type_, values) for type_ in schema.types)
        for _ in range(draw.randrange(values + 2))
    )
    return {row: draw.choice((1, 1, -1)) for row in rows}


def _value(draw: random.Random, type_: Type, values: int) -> Any:
    n = draw.randrange(values)
    if type_.nullable and n == 0:
        return None
    if type_.structure is not None:
        return _constructed(draw, type_.structure, values, depth=2)
    generators: dict[str, Callable[[], Any]] = {
        "int": lambda: n,
        "float": lambda: n / 2,
        "bool": lambda: n % 2 == 0,
        "str": lambda: "abcdefghijklmnopqrstuvwxyz"[n % 26] * (1 + n // 26),
        "bytes": lambda: bytes([n % 256]),
        "date": lambda: date(2024, 1, 1) + timedelta(days=n),
        "decimal": lambda: Decimal(n).scaleb(-type_.scale),
        "time": lambda: time(n % 24, n % 60),
        "duration": lambda: timedelta(hours=n - values // 2),
        "timestamptz": lambda: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n),
        "list": lambda: tuple(_value(draw, type_.element, values) for _ in range(n % 4)),
        "struct": lambda: tuple(_value(draw, part.type, values) for part in type_.parts),
        "timestamp": lambda: datetime(2024, 1, 1) + timedelta(hours=n),
        "object": lambda: (n, str(n)),
    }
    return generators[type_.kind]()


def _constructed(draw: random.Random, structure: Structure, values: int, depth: int) -> Any:
    """Return a record or a branch, nested at most a few levels deep if its type allows that."""
    if structure.is_record and (depth == 0 or draw.randrange(values) == 0):
        return None
    flat = [candidate for candidate in structure.constructors if not any(candidate.layout.nested)]
    constructor = draw.choice(flat if depth <= 0 and flat else structure.constructors)
    fields = [
        _value(draw, field.type, values)
        if field.type.structure is None
        else _constructed(draw, field.type.structure, values, depth - 1)
        for field in constructor.fields
    ]
    return Branch(constructor.name, *fields) if constructor.name else Record(fields)
