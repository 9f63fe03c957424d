"""The operators of the tutorial, in the files of a user, behave like built-in operators."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dbsp import Circuit, DbspError, Stream
from dbsp.circuit.drawing import to_dot
from dbsp.circuit.operator import Operator
from dbsp.circuit.stage import Stage
from tests.everywhere import follow_everywhere
from tests.harness import view
from tests.profiles import examples
from tests.reference import Z
from tests.strategies import Tick, nullable, rows, small, ticks, words

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "your-own-operator.md"
FILES = re.compile(r"^cat > (\w+)\.py <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)
COLUMNS = {"k": int, "x": int | None, "s": str}
Make = Callable[[int], Operator]


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of the tutorial by name, imported from the files of the page."""
    folder = tmp_path_factory.mktemp("tutorial")
    files = dict(FILES.findall(PAGE.read_text(encoding="utf-8")))
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    sys.path.insert(0, str(folder))
    found: dict[str, Make] = {}
    for name in files:
        found |= vars(importlib.import_module(name))
    yield found
    sys.path.remove(str(folder))
    for name in files:
        del sys.modules[name]


def at_least(n: int) -> Callable[[Z], Z]:
    return lambda a: {row: 1 for row, weight in a.items() if weight >= n}


@pytest.mark.parametrize("name", ["AtLeast", "CountedAtLeast"])
@pytest.mark.parametrize("n", [1, 3])
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=ticks({"a": rows(small, nullable, words)}, max_ticks=5))
def test_equals_its_definition_outside_and_inside_a_scope(
    operators: dict[str, Make], name: str, n: int, sequence: list[Tick]
) -> None:
    operator = operators[name](n)
    follow_everywhere(lambda a: operator(a), at_least(n), COLUMNS, "x", sequence)


@pytest.mark.parametrize("name", ["AtLeast", "CountedAtLeast"])
def test_is_drawn_counts_its_state_and_is_rolled_back(operators: dict[str, Make], name: str) -> None:
    def build() -> tuple[Circuit, Stream]:
        circuit = Circuit("own")
        a = circuit.input("a", x=int)
        return circuit, a

    circuit, a = build()
    circuit.output("out", operators[name](2)(a))
    circuit.output("inverse", a.filter(lambda row: 1 // row.x >= 0))
    assert "AtLeast 2" in to_dot(circuit)
    for stage in Stage:
        run = circuit.start(stage)
        run.observe()
        run.step({"a": {(1,): 2, (2,): 1}})
        assert run.state_rows > 0
        assert run.state_bytes > 0
        assert any("AtLeast" in stats.node.operator.label and stats.rows_out for stats in run.stats())
        with pytest.raises(DbspError):
            run.step({"a": {(2,): 1, (0,): 1}})
        assert view(run) == {(1,): 1}
        assert run.step({"a": {(2,): 1}})["out"].to_dict() == {(2,): 1}


def test_equal_operators_over_one_stream_are_one_node(operators: dict[str, Make]) -> None:
    circuit = Circuit("twice")
    a = circuit.input("a", x=int)
    circuit.output("one", operators["AtLeast"](2)(a))
    circuit.output("other", operators["AtLeast"](2)(a))
    physical = circuit.circuit("physical")
    assert [node.operator.name for node in physical.nodes].count("AtLeast") == 1
