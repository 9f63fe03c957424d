"""`dbsp.lazy_dataclass.dataclass` means what `dataclasses.dataclass` means."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

import pytest

from dbsp.lazy_dataclass import dataclass as lazy

standard = dataclasses.dataclass
Decorator = Callable[..., Any]
NAN = float("nan")

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False, "repr": False},
    {"order": True, "frozen": True, "slots": True},
    {"kw_only": True},
]
by_options = pytest.mark.parametrize("options", OPTIONS, ids=str)


def defined(decorator: Decorator, options: dict[str, Any]) -> type[Any]:
    @decorator(**options)
    class Point:
        """A point."""

        dimensions: ClassVar[int] = 2
        x: Any
        y: int = 7
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="-", repr=False, kw_only=True)
        cost: int = field(default=3, init=False)

        def shifted(self) -> Any:
            return dataclasses.replace(self, x=self.x + 1)

    return Point


def outcome(action: Callable[[], Any]) -> Any:
    """Return what an action returns, or the type and the text of its error."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error).replace("Point.", "").replace("__lt__", "<")


def observed(cls: type[Any]) -> list[Any]:
    """Return what users of a class can see."""
    a, b, c = cls(x=1), cls(x=1, y=7, tags=["t"]), cls(x=2, note="n")
    # The standard library of Python 3.11 raises an unrelated error for frozen classes with slots.
    other = "y" if hasattr(cls, "__slots__") else "z"
    single = [
        lambda: repr(a).rpartition(".")[2] if "0x" not in repr(a) else "address",
        lambda: (a == b, a == c, a != b, a == (1, 7)),
        lambda: hash(a) == hash(b),
        lambda: hash(a) == hash((1, 7, "-", 3)),
        lambda: {a: 1}.get(b),
        lambda: (a < c, a <= b, a > c, a >= b),
        lambda: a < 3,
        lambda: setattr(a, "y", 8) or a.y,
        lambda: setattr(a, other, 8),
        lambda: delattr(a, "x") or hasattr(a, "x"),
        lambda: [f.name for f in dataclasses.fields(cls)],
        lambda: dataclasses.asdict(b),
        lambda: dataclasses.astuple(b.shifted()),
        lambda: cls.__match_args__,
        lambda: hasattr(b, "__dict__"),
        lambda: dataclasses.astuple(copy.deepcopy(b)),
        lambda: copy.copy(b).tags is b.tags,
        lambda: cls(x=1).tags is cls(x=1).tags,
        lambda: str(inspect.signature(cls)).replace("'", ""),
        lambda: cls(),
        lambda: cls(x=1, w=2),
        lambda: cls(1, 2, [], "note"),
        lambda: cls(x=1, cost=2),
        lambda: cls.dimensions,
        lambda: cls.__hash__ is None,
        lambda: cls.__init__.__qualname__.rpartition(".")[2],
    ]
    return [outcome(each) for each in single]


@by_options
def test_a_class_is_used_like_one_of_the_standard_library(options: dict[str, Any]) -> None:
    assert observed(defined(lazy, options)) == observed(defined(standard, options))


@by_options
@pytest.mark.parametrize("base", [lazy, standard])
def test_derived_classes(options: dict[str, Any], base: Decorator) -> None:
    """With either decorator below, and with bases that are frozen or not."""

    def derived(first: Decorator, second: Decorator, frozen: bool) -> Any:
        @first(frozen=frozen)
        class Base:
            x: Any
            y: int = 1

            def __post_init__(self) -> None:
                object.__setattr__(self, "x", self.x * 2)

        @second(**options)
        class Point(Base):
            z: int = 5

        return [*observed_fields(Point), Point.__mro__[1].__name__]

    for frozen in (False, True):
        if base is lazy:
            found = outcome(lambda frozen=frozen: derived(lazy, standard, frozen))
        else:
            if frozen != options.get("frozen", False):
                continue  # the standard library refuses it, and so do type checkers
            found = outcome(lambda frozen=frozen: derived(lazy, lazy, frozen))
        assert found == outcome(lambda frozen=frozen: derived(standard, standard, frozen))


def observed_fields(cls: Any) -> list[Any]:
    a = cls(x=1, y=2, z=3)
    return [
        dataclasses.astuple(a),
        outcome(lambda: a == cls(x=1, y=2, z=3)),
        outcome(lambda: hash(a) == hash(cls(x=1, y=2, z=3))),
        outcome(lambda: setattr(a, "z", 4)),
        str(inspect.signature(cls)).replace("'", ""),
    ]


def test_methods_of_the_class_are_kept() -> None:
    @lazy(frozen=True)
    class Own:
        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 4)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 9

    assert (Own().x, repr(Own()), Own() == 3, hash(Own())) == (4, "own", True, 9)

    @lazy(frozen=True)
    class OwnEquality:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(OwnEquality(1)) == hash((1,))


def test_a_subclass_without_decorator_shares_the_methods() -> None:
    @lazy(frozen=True)
    class Base:
        x: int

    class Derived(Base):
        @cached_property
        def twice(self) -> int:
            return 2 * self.x

    # The first instance is one of the subclass.
    one = Derived(1)
    assert (one.twice, Base(1) == Derived(1), Derived(1) == one) == (2, False, True)
    assert "__init__" not in vars(Derived)


def test_a_derived_class_without_equality_compares_like_its_base() -> None:
    @lazy(frozen=True)
    class Base:
        x: int

    @lazy(frozen=True, eq=False)
    class Derived(Base):
        y: int

    assert Derived(1, 2) == Derived(1, 3)
    assert hash(Derived(1, 2)) == hash(Derived(1, 3))


@pytest.mark.parametrize("names", [0, 1, 2])
def test_values_are_compared_by_identity_first(names: int) -> None:
    # Since Python 3.13, the standard library compares the values one by one.
    for decorator in (lazy, standard) if sys.version_info < (3, 13) else (lazy,):
        space: dict[str, Any] = {"__annotations__": {f"v{n}": "Any" for n in range(names)}}
        cls = decorator(frozen=True)(type("Some", (), space))
        assert cls(*[NAN] * names) == cls(*[NAN] * names)
        assert (cls(*[NAN] * names) == cls(*[float("nan")] * names)) == (names == 0)


@lazy(frozen=True, slots=True)
class Packed:
    x: int
    y: tuple[int, ...] = ()


@lazy
class Tree:
    children: list[Tree] = field(default_factory=list)


def test_frozen_classes_with_slots_are_pickled() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Packed(1, (2,)), protocol)) == Packed(1, (2,))


def test_a_cycle_has_a_text() -> None:
    tree = Tree()
    tree.children.append(tree)
    assert repr(tree) == "Tree(children=[...])"


def test_a_definition_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, *spaces: Any) -> Any:
        if not text.endswith("return ()"):  # a list of no methods, since Python 3.13
            raise AssertionError("expected no generated method")
        return exec(text, *spaces)

    # The standard library executes the text of its methods.
    monkeypatch.setattr(dataclasses, "exec", refuse, raising=False)
    with pytest.raises(AssertionError, match="expected no generated method"):
        standard(type("Some", (), {"__annotations__": {"x": "int"}}))

    @lazy(frozen=True, slots=True, order=True)
    class Base:
        x: int

    @lazy(frozen=True, order=True)
    class Derived(Base):
        y: int = 1

    assert [Derived(1), Derived(0, 3)] > [Derived(0)]
