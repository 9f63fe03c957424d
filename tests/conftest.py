"""Hypothesis profiles: short runs by default, the same examples every time in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from dbsp.operators.recursion import fixpoint_step

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=60, **_COMMON)
settings.register_profile("ci", max_examples=60, derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))


@pytest.fixture(scope="module", params=["auto", "incremental"])
def every_recursion(request: pytest.FixtureRequest) -> Iterator[None]:
    """All scopes of a module's tests in one mode; small ticks would else all be begun anew."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "incremental":
            options = fixpoint_step.evaluation_options
            patch.setattr(
                fixpoint_step,
                "evaluation_options",
                lambda body: options(body)._replace(restarts=False, insert_only=False),
            )
        yield
