"""Match a pattern and a text with the faster of two engines, in bounded time.

Python's `re` tries one way after the other. For n characters and a pattern of degree d, the number
of its quantifiers and alternatives, there are up to (n + 1)^d ways; nested quantifiers make the
number exponential. RE2 takes time linear in n for every pattern that it supports, but has a higher
cost per call, and it has no look-ahead, no back references and no large numbers of repetitions. So
`re` matches if there are few ways, else RE2; if RE2 does not support the pattern and there are too
many ways for `re`, this is an error.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import Any

import re2

from dbsp.errors import EvaluationError, shorten
from dbsp.lazy_dataclass import dataclass

FEW_WAYS = 10_000
"""Up to this many ways `re` is used, which rarely tries all and is twenty times faster to call."""
MOST_WAYS = 100_000_000
"""More ways are an error; this many take seconds."""


@dataclass(frozen=True)
class Pattern:
    """A pattern in both notations; `for_re2` is None if RE2 does not support the pattern."""

    source: str
    plain: re.Pattern[str]
    for_re2: str | None
    degree: float

    def fullmatch(self, text: str) -> bool:
        """Whether all of the text matches. Raises EvaluationError for too many ways."""
        if self._ways(text) <= math.log(FEW_WAYS):
            return self.plain.fullmatch(text) is not None
        if self.linear is not None:
            try:
                return self.linear.fullmatch(text) is not None
            except UnicodeEncodeError:
                pass  # lone surrogates, which RE2 does not accept
        if self._ways(text) <= math.log(MOST_WAYS):
            return self.plain.fullmatch(text) is not None
        raise EvaluationError(
            f"matching {shorten(self.source)} with a text of {len(text):,} characters may not terminate; "
            "simplify the repetitions, or avoid look-ahead and back references",
            code="invalid-pattern",
        )

    @property
    def may_be_endless(self) -> bool:
        """Whether a text of a few characters may have too many ways."""
        return math.isinf(self.degree) and self.linear is None

    def _ways(self, text: str) -> float:
        """Return the logarithm of the largest number of ways."""
        return self.degree * math.log(len(text) + 2) if self.degree else 0.0

    @cached_property
    def linear(self) -> Any | None:
        """The pattern compiled by RE2; None if RE2 does not support it."""
        if self.for_re2 is None:
            return None
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        try:
            return re2.compile(self.for_re2, options)
        except (re2.error, UnicodeEncodeError):
            return None
