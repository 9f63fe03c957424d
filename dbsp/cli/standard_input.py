"""The lines of standard input, for all commands that read them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input, each as soon as it arrives, without a byte order mark.

    Bytes that are not UTF-8 become half surrogate pairs, which the readers of changes and of EDN
    refuse with their place.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")
    return iter(sys.stdin.readline, "")
