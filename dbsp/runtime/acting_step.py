"""A step that runs another action than a tick would run, as in the step that rebuilds state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import ReplayingStep
from dbsp.data.batch import Batch

Action: TypeAlias = Callable[[Step], None]
"""Sets `out` of a step."""


class ActingStep(Step):
    """Runs an action on another step; errors name its node."""

    __slots__ = ("_action", "_step")

    def __init__(self, step: Step, action: Action) -> None:
        super().__init__()
        self.node = step.node
        self._step = step
        self._action = action

    def step(self) -> None:
        self._action(self._step)


def step_as_usual(step: Step) -> None:
    """Step as in a tick."""
    step.step()


def replay(step: Step) -> None:
    """Emit the integral that the step itself keeps."""
    if not isinstance(step, ReplayingStep):
        raise AssertionError(f"{type(step).__name__} cannot replay its past")
    step.replay()


def emit(batch: Batch | None) -> Action:
    """Return an action that emits a batch."""

    def act(step: Step) -> None:
        step.out = batch or None

    return act
