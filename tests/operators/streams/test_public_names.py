"""`dir`, and so the completion of a shell, shows the members that the reference documents."""

from __future__ import annotations

import re
import rlcompleter
from pathlib import Path

import pytest

import dbsp
from dbsp import Circuit, Stream

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "api"
# Documented as an argument of the class.
CONSTRUCTOR = {"Circuit": ["name"], "Stream": []}


def documented(page: str, name: str) -> list[str]:
    """The members that a page of the reference lists for a class."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    block = re.search(rf"^::: dbsp\.{name}\n((?:    .*\n)+)", text, re.MULTILINE)
    assert block is not None
    return re.findall(r"^        - (\w+)$", block[1], re.MULTILINE)


@pytest.mark.parametrize(("page", "public"), [("circuits.md", Circuit), ("streams.md", Stream)])
def test_dir_shows_the_documented_members(page: str, public: type) -> None:
    circuit = Circuit("c")
    value = circuit if public is Circuit else circuit.input("a", x=int)
    expected = sorted([*documented(page, public.__name__), *CONSTRUCTOR[public.__name__]])
    assert dir(public) == expected
    assert dir(value) == expected


ATTRIBUTES_OF_RUNS = [
    *("asserted", "drift", "evaluations", "graph", "join_terms", "kept_changes", "log", "prepare", "tick")
]
"""Those that guides explain, and the reference does not list."""


def test_dir_of_runs_and_programs_shows_the_documented_members() -> None:
    run, program = Circuit("c").start(), dbsp.compile(".decl a(x: number)")
    assert dir(run) == sorted([*documented("runs.md", "Run"), *ATTRIBUTES_OF_RUNS])
    assert dir(program) == sorted([*documented("programs.md", "Program"), "counted", "plans_for", "text"])
    for value in (run, program):
        assert all(hasattr(value, name) for name in dir(value))


@pytest.mark.parametrize("hidden", ["add", "append", "entering", "outer_of", "node", "graph"])
def test_completion_offers_no_internal_member(hidden: str) -> None:
    circuit = Circuit("c")
    completer = rlcompleter.Completer({"circuit": circuit, "stream": circuit.input("a", x=int)})
    for name in ("circuit", "stream"):
        text = f"{name}.{hidden[:2]}"
        offered = []
        while (completion := completer.complete(text, len(offered))) is not None:
            offered.append(completion.split("(")[0])
        assert f"{name}.{hidden}" not in offered


def test_names_that_are_hidden_still_work() -> None:
    circuit = Circuit("c")
    stream = circuit.input("a", x=int)
    assert stream.graph is circuit
    assert circuit.nodes == [stream.node]
