"""Circuits whose sorted runs are narrow and keep no weights of 1, however small the runs are."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import IterationLimitError
from dbsp.kernels import narrow_rows
from tests.harness import deltas_of
from tests.profiles import examples
from tests.random_plans import Plan, build, changes, outputs, plans
from tests.strategies import Tick


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(plans(), outputs, changes(max_ticks=6), st.data())
def test_a_circuit_does_not_depend_on_how_runs_are_stored(
    plan: Plan, out: list[int], sequence: list[Tick], data: st.DataObject
) -> None:
    def deltas(least: int) -> list[object]:
        with mock.patch.object(narrow_rows, "LARGE", least):
            run, found = build(plan, out, 40).start(), []
            for tick in sequence:
                try:
                    found.append(deltas_of(run.step(tick)))
                except IterationLimitError:
                    break
            return found

    assert deltas(2) == deltas(10**9)
