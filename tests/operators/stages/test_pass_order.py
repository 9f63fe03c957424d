"""Every pass over circuits on small queries: the text after the pass is compared with a file.

A case is Python code that builds the stream `out` from the inputs `a` and `b`, both
(x: int, y: int).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dbsp
from dbsp import Circuit
from dbsp.operators.stages.circuit_context import CircuitContext
from dbsp.operators.stages.circuit_passes import CIRCUIT, CIRCUIT_PASSES
from dbsp.operators.stages.join_strategy import JoinStrategy
from tests.pass_fixtures import PassCase, pass_cases

CASES = list(pass_cases(Path(__file__).parent / "passes"))
OPTIONAL = {one.name for one in CIRCUIT_PASSES if one.optional}


def text_after(name: str, code: str) -> str:
    """Return the text after a pass, without positions; no other optional pass is applied."""
    circuit = Circuit("query")
    columns = {"x": int, "y": int}
    names = {"circuit": circuit, "col": dbsp.col, "count": dbsp.count, "columns": columns}
    names |= {name: circuit.input(name, schema=columns) for name in ("a", "b")}
    exec(code, names)
    circuit.output("out", names["out"])
    context = CircuitContext(disabled=OPTIONAL - {name}, strategy=JoinStrategy.AUTO)
    return re.sub(r"  \[.*\]$", "", CIRCUIT.text_after(name, circuit, context), flags=re.MULTILINE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_pass(case: PassCase) -> None:
    assert text_after(case.name, case.given) == case.expected
