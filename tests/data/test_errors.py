"""Helpers that narrow types raise InvariantError, with the place, for defects of dbsp."""

from __future__ import annotations

import pytest

from dbsp import Circuit
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import expect_arranged
from dbsp.errors import InvariantError, expect_present, expect_type


def test_a_present_value_is_returned() -> None:
    assert expect_present(0, "a number") == 0
    assert expect_type(True, int, "a number") is True


def test_a_missing_value_is_named() -> None:
    with pytest.raises(InvariantError) as caught:
        expect_present(None, "the manifest of the snapshot")
    assert (
        str(caught.value)
        == "expected the manifest of the snapshot, got None; this is a defect of dbsp [invariant]"
    )


def test_a_value_of_another_type_is_named_with_its_place() -> None:
    with pytest.raises(InvariantError) as caught:
        expect_type("1", int, "a number", where="Join at etl.py:41")
    assert (
        str(caught.value)
        == "Join at etl.py:41: expected a number, got str; this is a defect of dbsp [invariant]"
    )


class Plain(Step):
    """A step that arranges nothing."""

    def step(self) -> None:
        self.out = None


def test_an_input_that_is_not_arranged_is_named_with_its_node() -> None:
    stream = Circuit("test").input("a", x=int).filter(lambda row: True)
    with pytest.raises(
        InvariantError, match=r"^Filter at test_errors\.py:\d+: expected arrangements as inputs, got Plain"
    ):
        expect_arranged(stream.node, [Plain()])
