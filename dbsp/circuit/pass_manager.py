"""A compiler as a tuple of passes, each a function from one representation of a query to the next.

    source text -> tokens -> ... -> checked program -> ... -> query circuit -> ... -> physical
    circuit

A `Representation` is a form of the query between two passes: its type, and how it is shown as text.
A `PassManager` holds the tuple. Its constructor checks that each pass takes the result of the one
before. It runs the passes in order and can stop after any of them to show its result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from dbsp.diagnostics import did_you_mean
from dbsp.errors import ArgumentError, shorten
from dbsp.lazy_dataclass import dataclass

T = TypeVar("T")
Before = TypeVar("Before")
After = TypeVar("After")
Context = TypeVar("Context", bound="PassContext")


@dataclass(frozen=True, eq=False)
class Representation(Generic[T]):
    """A form of a query between two passes: its type, its text, and how many parts it has."""

    name: str
    type: type[T]
    show: Callable[[T], str]
    size: Callable[[T], int]


@dataclass(frozen=True)
class AppliedPass:
    """The changes of one pass, and the size (nodes, rules, ...) before and after it."""

    name: str
    changes: tuple[str, ...]
    before: int
    after: int


@dataclass
class PassContext:
    """What the passes of one compilation share."""

    disabled: Collection[str] = frozenset()
    """The optional passes that are left out."""
    changes: list[str] = field(default_factory=list)
    """A pass adds one line per change."""
    applied: dict[str, AppliedPass] = field(default_factory=dict)
    """By name, the changes of each pass so far; those of a repeated pass are added up."""
    measured: tuple[object, object, int] = (None, None, 0)
    """The representation of the last value between two passes, the value, and its size."""


@dataclass(frozen=True)
class Pass(Generic[Before, After, Context]):
    """A function from one representation to another, with its name and a summary in one line.

    An `optional` pass changes the cost of a query and not its meaning; it can be left out.
    """

    name: str
    takes: Representation[Before]
    gives: Representation[After]
    summary: str
    function: Callable[[Before, Context], After]
    optional: bool = False


@dataclass(frozen=True)
class Repeat(Generic[Context]):
    """Passes that are applied in turn until all of them return their argument unchanged."""

    passes: tuple[Pass[Any, Any, Context], ...]


class PassManager(Generic[Context]):
    """Runs passes in their order."""

    def __init__(self, entries: Sequence[Pass[Any, Any, Context] | Repeat[Context]]) -> None:
        """Raises TypeError if a pass does not take the result of the one before it."""
        self._groups = [
            (entry.passes, True) if isinstance(entry, Repeat) else ((entry,), False) for entry in entries
        ]
        self._by_name: dict[str, Pass[Any, Any, Context]] = {}
        before: Pass[Any, Any, Context] | None = None
        for group, repeated in self._groups:
            for pass_ in group:
                if self._by_name.setdefault(pass_.name, pass_) is not pass_:
                    raise TypeError(f"two passes have the name {pass_.name}")
                if before is not None and before.gives is not pass_.takes:
                    raise TypeError(
                        f"pass {pass_.name} takes a {pass_.takes.name}, but pass {before.name} returns a "
                        f"{before.gives.name}"
                    )
                if repeated and pass_.takes is not pass_.gives:
                    raise TypeError(
                        f"pass {pass_.name} is repeated, but takes a {pass_.takes.name} and returns a "
                        f"{pass_.gives.name}"
                    )
                before = pass_

    def __iter__(self) -> Iterator[Pass[Any, Any, Context]]:
        """The passes in the order of their first application."""
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Pass[Any, Any, Context]:
        """Return the pass with this name.

        Raises ArgumentError, with all names, if there is none.
        """
        found = self._by_name.get(name) if isinstance(name, str) else None
        if found is None:
            hint = did_you_mean(name, self._by_name) if isinstance(name, str) else None
            names = ", ".join(self._by_name)
            raise ArgumentError(
                f"unknown pass {shorten(name)}; {f'{hint} The' if hint else 'the'} passes are {names}"
            )
        return found

    @property
    def optional(self) -> tuple[str, ...]:
        """The names of the passes that can be left out."""
        return tuple(pass_.name for pass_ in self if pass_.optional)

    def run(
        self,
        value: Any,
        context: Context,
        *,
        start: Representation[Any] | None = None,
        until: str | None = None,
    ) -> Any:
        """Return the result of the passes for a value.

        The first pass is the first one that takes the representation `start` (by default the first
        of all); the last is `until` (by default the last of all). For a pass of a repeated group,
        `until` means its first application. Raises ArgumentError if there is no such pass.
        """
        if until is not None:
            self[until]
        settled = None
        waiting = start is not None
        for group, repeated in self._groups:
            if waiting and group[0].takes is not start:
                continue
            waiting = False
            if repeated and value is settled:
                continue
            while True:
                before = value
                for pass_ in group:
                    value = _applied(pass_, value, context)
                    if pass_.name == until:
                        return value
                if not repeated or value is before:
                    break
            settled = value if repeated else settled
        return value

    def text_after(
        self, name: str, value: Any, context: Context, *, start: Representation[Any] | None = None
    ) -> str:
        """Return the result of the passes up to the one with this name, as text.

        Raises as `run`.
        """
        return self[name].gives.show(self.run(value, context, start=start, until=name))


def _applied(pass_: Pass[Any, Any, Context], value: Any, context: Context) -> Any:
    """Return the result of one pass, and record the application in the context."""
    if pass_.name in context.disabled:
        return value
    context.changes = []
    result = pass_.function(value, context)
    if not isinstance(result, pass_.gives.type):
        raise TypeError(
            f"pass {pass_.name}: expected a {pass_.gives.name} as result, got {type(result).__name__}"
        )
    before, after = _size(pass_.takes, value, context), _size(pass_.gives, result, context)
    changes = tuple(context.changes)
    record = context.applied.get(pass_.name)
    context.applied[pass_.name] = (
        AppliedPass(pass_.name, changes, before, after)
        if record is None
        else replace(record, changes=record.changes + changes, after=after)
    )
    return result


def _size(representation: Representation[Any], value: Any, context: PassContext) -> int:
    """Return the size of a value, which is known if the last pass returned it."""
    form, last, size = context.measured
    if form is not representation or last is not value:
        size = representation.size(value)
        context.measured = representation, value, size
    return size
