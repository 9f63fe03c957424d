"""How many random examples the tests run: profiles of hypothesis, by HYPOTHESIS_PROFILE."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so no example has a deadline.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=60, **_COMMON)
settings.register_profile("ci", max_examples=5, derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=2000, **_COMMON)

PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
settings.load_profile(PROFILE)

_SCALES = {"ci": 1 / 16, "long": 20.0}
"""By profile, the factor of the number of examples of the tests that say how many they need."""


def examples(number: int) -> int:
    """Return how many examples a test runs that says itself how many it needs."""
    return max(min(2, number), int(number * _SCALES.get(PROFILE, 1.0)))


def sampled(count: int) -> range:
    """Return the numbers below `count` that a test tries: each, in a check every fifth.

    The last number is one of them.
    """
    step = 5 if PROFILE == "ci" else 1
    return range((count - 1) % step, count, step)


def distance(steps: int) -> int:
    """Return the distance between steps that a test interrupts: in a check, six times `steps`."""
    return 6 * steps if PROFILE == "ci" else steps
