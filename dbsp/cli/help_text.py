"""The texts that `--help` prints."""

from __future__ import annotations


def paragraphs(text: str | None) -> str:
    """Return a docstring with each paragraph on one line, for the terminal to wrap."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))
