"""Proofs and refusals on the terminal, for `dbsp why` and the prompt of `dbsp live`."""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dbsp.compiler.program import Program
from dbsp.compiler.why.proof import DEPTH as DEPTH
from dbsp.compiler.why.session import WhySession
from dbsp.errors import InputError
from dbsp.runtime.run import Run

_SLOW = 1.0
"""After so many seconds of deriving it is said how far it is."""


class Form(enum.Enum):
    TEXT = "text"
    JSON = "json"
    DOT = "dot"


@contextmanager
def state_of(program: Program, run: Run) -> Iterator[WhySession]:
    """What the run holds; while relations are derived for it, a line on the terminal says how far it is."""
    started = shown_at = time.monotonic()
    shown = False

    def progress(rounds: int, rows: int) -> None:
        nonlocal shown_at, shown
        now = time.monotonic()
        if now - started > _SLOW and now - shown_at > 0.2 and sys.stderr.isatty():
            print(
                f"\r\x1b[Kderiving all rows again: round {rounds:,}, {rows:,} rows", end="", file=sys.stderr
            )
            sys.stderr.flush()
            shown_at, shown = now, True

    try:
        yield program.state(run, progress)
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_proofs(state: WhySession, goal: str, rows: int, depth: int, form: Form = Form.TEXT) -> None:
    """Proofs of the first rows that fit a goal. Raises InputError when none does."""
    proofs = state.why(goal, limit=rows + 1, depth=depth)
    if not proofs:
        raise InputError(f"no row fits {goal.strip()}; 'why not' tells why")
    for number, proof in enumerate(proofs[:rows]):
        match form:
            case Form.JSON:
                print(proof.to_json())
            case Form.DOT:
                print(proof.to_dot(), end="")
            case Form.TEXT:
                print(*([""] if number else []), *proof.lines(depth), sep="\n")
    if len(proofs) > rows and rows > 1 and form is Form.TEXT:
        print("\nand more rows fit")


def print_refusal(state: WhySession, goal: str, depth: int, form: Form = Form.TEXT) -> None:
    """Why no row fits a goal. Raises InputError when one does."""
    refusal = state.why_not(goal, depth=depth)
    if refusal is None:
        raise InputError(f"a row fits {goal.strip()}; 'why' tells why")
    print(refusal.to_json() if form is Form.JSON else "\n".join(refusal.lines()))
