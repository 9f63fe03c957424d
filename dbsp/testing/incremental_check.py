"""The check of an incremental engine against a query from scratch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from dbsp.errors import ArgumentError
from dbsp.lazy_dataclass import dataclass
from dbsp.testing.change_log import Contents, Log, applied, is_proper, log_of, log_text, rows_of, splits_of
from dbsp.testing.checked_engine import (
    Engine,
    EngineRun,
    Refused,
    Weights,
    difference,
    weights_of,
)
from dbsp.testing.smallest_log import smallest

Query = Callable[[Mapping[str, Weights]], Mapping[str, Any]]
_SHOWN_ROWS = 10


@dataclass(frozen=True)
class Checked:
    """What a check that found no error has done."""

    runs: int
    """The number of runs of the engine: one for the changes as given, and one for each split."""
    ticks: int
    """The number of ticks of all runs."""
    rows: int
    """The number of rows in the given changes."""


class Mismatch(AssertionError):
    """The engine and the query disagree; the text shows the smallest changes for which they do.

    `changes` are these changes, `tick` is the number of the tick from 1 (0 before the first one),
    and `problem` describes what is wrong there. Its cause is the error of the engine, if it raised
    one.
    """

    def __init__(self, changes: Log, tick: int, problem: str, note: str) -> None:
        super().__init__(f"{problem}; tick {tick} of these changes{note}:\n{log_text(changes)}")
        self.changes = changes
        self.tick = tick
        self.problem = problem


@dataclass(frozen=True)
class _Failure:
    kind: object
    """Failures of equal kinds have the same cause, as far as it can be seen from outside."""
    tick: int
    problem: str
    error: Exception | None = None


def check_incremental(
    engine: Engine,
    query: Query,
    changes: Iterable[Mapping[str, Any]],
    sets: Collection[str] = (),
    splits: bool = True,
    attempts: int = 500,
) -> Checked:
    """Check that an engine emits, in every tick, the change of the query from scratch.

    With the changes i of the inputs and the changes o of the outputs, the check is that the
    integral of o is the query of the integral of i after every tick t:

        o[0] + ... + o[t] = Q(i[0] + ... + i[t])

    which defines the incremental version of Q (Budiu et al., "DBSP: Automatic Incremental View
    Maintenance for Rich Query Languages", VLDB 2023, section 3). The same changes are also applied
    in one tick, with a tick for every row, and with empty ticks between. If the check fails, it
    looks for fewer and smaller changes that fail in the same way. Unless the given changes do so,
    it deletes no row that is not there, and inserts no row of `sets` that is. Rows are compared by
    `==`.

    Parameters:
        engine: An object whose method `start` begins a new run with empty inputs: a circuit, a
            program, or an adapter for another engine.
        query: A function from the contents of the inputs, by input a dict from rows to weights, to
            the contents of the outputs, by output a Z-set: such a dict, an object with a method
            `to_dict` that returns one, or an iterable of rows. It raises `Refused` for contents
            that the engine must refuse without changing its state.
        changes: The changes of each tick: by input, a Z-set in one of these forms.
        sets: The inputs whose rows are present or absent, as all inputs of a Datalog program are: a
            positive weight asserts a row, a negative one retracts it.
        splits: Whether the other splits of the changes are checked, too.
        attempts: The largest number of runs in search of smaller changes; 0 for no search.

    Returns:
        The numbers of runs, ticks and rows that were checked.

    Raises:
        Mismatch: The engine and the query disagree, or the engine raised an error.
        ArgumentError: `changes` has something else than a Z-set.

    The cost is that of `query` and of a tick of the engine, for each tick of each run.

    Examples:
        >>> from dbsp.testing import check_incremental, random_changes
        >>> text = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x), x > 1."
        >>> check_incremental(
        ...     dbsp.compile(text),
        ...     lambda inputs: {"b": [(x,) for (x,) in inputs["a"] if x > 1]},
        ...     random_changes({"a": [range(4)]}, ticks=10),
        ...     sets=["a"],
        ... )
        Checked(runs=4, ticks=60, rows=19)
    """
    if isinstance(sets, str):
        raise ArgumentError(f"expected a collection of names of inputs, got {sets!r}; write [{sets!r}]")
    log = log_of(changes)
    logs = [("", log), *((f" {split}", each) for split, each in (splits_of(log, sets) if splits else ()))]
    for split, each in logs:
        found = _failure(engine, query, each, sets)
        if found is not None:
            raise _smallest_mismatch(engine, query, each, sets, found, split, attempts) from found.error
    return Checked(len(logs), sum(len(each) for _, each in logs), len(rows_of(log)))


def _smallest_mismatch(
    engine: Engine,
    query: Query,
    log: Log,
    sets: Collection[str],
    found: _Failure,
    split: str,
    attempts: int,
) -> Mismatch:
    latest = found
    proper = is_proper(log, sets)

    def fails(smaller: Log) -> bool:
        nonlocal latest
        if proper and not is_proper(smaller, sets):
            return False  # the engine may not be made for such changes
        failure = _failure(engine, query, smaller, sets)
        if failure is None or failure.kind != found.kind:
            return False
        latest = failure
        return True

    # Changes after the failure have no part in it.
    log = log[: found.tick]
    if attempts and not fails(log):
        return Mismatch(log, found.tick, found.problem, f"{split}, which do not fail in every run")
    return Mismatch(smallest(log, fails, attempts), latest.tick, latest.problem, split)


def _failure(engine: Engine, query: Query, log: Log, sets: Collection[str]) -> _Failure | None:
    """Return the first failure of a new run, or None."""
    contents = Contents()
    run = engine.start()
    empty = query(contents)
    before = {name: _contents(run, name) or {} for name in empty}
    for name, value in empty.items():
        # An engine may compute nothing before its first tick.
        if before[name] and before[name] != weights_of(value):
            problem = _difference_text(
                f"the contents of {name!r} at the start", weights_of(value), before[name]
            )
            return _Failure(("start", name), 0, problem)
    for number, tick in enumerate(log, start=1):
        after = applied(contents, tick, sets)
        expected = _asked(query, after)
        try:
            result = run.step({name: dict(delta) for name, delta in tick.items()})
        except Exception as error:
            if not (isinstance(expected, Refused) and isinstance(error, expected.error)):
                return _Failure(type(error), number, f"the engine raised {error!r}", error)
            wrong = _wrong_view(run, before)
            if wrong is not None:
                return _Failure(("refused", wrong[0]), number, f"after an error, {wrong[1]}")
            continue
        if isinstance(expected, Refused):
            problem = f"expected an error of type {expected.error.__name__}, got a result"
            return _Failure("accepted", number, problem)
        for name, value in expected.items():
            emitted = weights_of(result[name]) if name in result else {}
            due = difference(value, before.get(name, {}))
            if emitted != due:
                problem = _difference_text(f"the change of {name!r}", due, emitted)
                return _Failure(("delta", name), number, problem)
        wrong = _wrong_view(run, expected)
        if wrong is not None:
            return _Failure(("view", wrong[0]), number, wrong[1])
        contents, before = after, expected
    return None


def _asked(query: Query, contents: Contents) -> dict[str, Weights] | Refused:
    try:
        return {name: weights_of(value) for name, value in query(contents).items()}
    except Refused as refused:
        return refused


def _wrong_view(run: EngineRun, expected: Mapping[str, Weights]) -> tuple[str, str] | None:
    """Return the name of an output whose contents are not as expected, and a description."""
    for name, weights in expected.items():
        shown = _contents(run, name)
        if shown is not None and shown != weights:
            return name, _difference_text(f"the contents of {name!r}", weights, shown)
    return None


def _contents(run: EngineRun, name: str) -> Weights | None:
    """Return the contents of an output, or None if the engine cannot show them."""
    view: Callable[[str], Any] | None = getattr(run, "view", None)
    return None if view is None else weights_of(view(name))


def _difference_text(what: str, expected: Weights, got: Weights) -> str:
    missing, extra = [
        {row: weight for row, weight in first.items() if second.get(row) != weight}
        for first, second in ((expected, got), (got, expected))
    ]
    return f"{what}: expected {_rows_text(missing)}, got {_rows_text(extra)}"


def _rows_text(rows: Weights) -> str:
    if not rows:
        return "nothing"
    shown = ", ".join(f"{row!r}: {weight:+d}" for row, weight in list(rows.items())[:_SHOWN_ROWS])
    more = len(rows) - _SHOWN_ROWS
    return f"{{{shown}}}" + (f" and {more} more rows" if more > 0 else "")
