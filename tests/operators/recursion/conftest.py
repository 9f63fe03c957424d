"""Fixtures of the tests of recursion modes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbsp.operators.recursion import convergence, modes


@pytest.fixture(scope="module")
def eager() -> Iterator[None]:
    """Retract all later iterations at once, even for few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convergence, "SAVED", 1_000_000)
        yield


@pytest.fixture
def iterations_at_first_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope of the mode "auto" keeps iterations from its first deletion on."""
    monkeypatch.setattr(modes.EvaluationHistory, "should_keep_iterations", lambda history: True)


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions never restart a scope."""
    monkeypatch.setattr(modes.EvaluationHistory, "retracts_many", lambda history, left: False)
    monkeypatch.setattr(modes, "REMOVAL", 1e9)
