"""Print proofs, refusals and reasons of changes, for `dbsp why` and the prompt of `dbsp live`."""

from __future__ import annotations

import enum
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dbsp.cli.unquoted_texts import remark_in_goal
from dbsp.compiler.program import Program
from dbsp.compiler.why.proof import DEPTH as DEPTH
from dbsp.compiler.why.refusal import Refusal
from dbsp.compiler.why.session import WhySession
from dbsp.errors import InputError
from dbsp.runtime.run import Run

_SLOW = 1.0
"""Seconds of derivation after which progress is shown."""


class Form(enum.Enum):
    TEXT = "text"
    JSON = "json"
    DOT = "dot"


@contextmanager
def state_of(program: Program, run: Run) -> Iterator[WhySession]:
    """Yield the state of the run; show progress on a terminal while it derives relations again."""
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


def print_proofs(
    state: WhySession, goal: str, rows: int, depth: int, hint: str, form: Form = Form.TEXT
) -> None:
    """Print proofs of the first rows that match a goal.

    Raises InputError if no row matches; `hint` says how to print the reason.
    """
    proofs = state.why(goal, limit=rows + 1, depth=depth)
    remark_in_goal(state, goal)
    if not proofs:
        raise InputError(f"no row matches {goal.strip()}; {hint}", code="no-matching-row")
    for number, proof in enumerate(proofs[:rows]):
        match form:
            case Form.JSON:
                print(proof.to_json())
            case Form.DOT:
                print(proof.to_dot(), end="")
            case Form.TEXT:
                print(*([""] if number else []), *proof.lines(depth), sep="\n")
    if len(proofs) > rows and rows > 1 and form is Form.TEXT:
        print("\nmore rows match")


def print_reasons(state: WhySession, goal: str, rows: int, depth: int, form: Form = Form.TEXT) -> None:
    """Print why the latest tick changed the first rows that match a goal, or did not change them.

    For a goal that no row matches, before or after the tick, prints why it is missing.
    """
    reasons = state.why_changed(goal, limit=rows + 1, depth=None if form is Form.JSON else depth)
    remark_in_goal(state, goal)
    if not reasons:
        refusal = state.why_not(goal)
        text = f"{goal.strip()}   not changed in tick {state.tick}: no row matches before and after"
        if form is Form.JSON:
            print(json.dumps({"tick": state.tick, "change": "missing", "refusal": _document(refusal)}))
        else:
            print(text, *([] if refusal is None else ["", *refusal.lines()]), sep="\n")
    for number, reason in enumerate(reasons[:rows]):
        if form is Form.JSON:
            print(reason.to_json())
        else:
            print(*([""] if number else []), *reason.lines(depth), sep="\n")
    if len(reasons) > rows and rows > 1 and form is Form.TEXT:
        print("\nmore rows match")


def _document(refusal: Refusal | None) -> object:
    return None if refusal is None else json.loads(refusal.to_json())


def print_refusal(state: WhySession, goal: str, depth: int, hint: str, form: Form = Form.TEXT) -> None:
    """Print why no row matches a goal.

    Raises InputError if a row matches; `hint` says how to print its proof.
    """
    refusal = state.why_not(goal, depth=depth)
    remark_in_goal(state, goal)
    if refusal is None:
        raise InputError(f"a row matches {goal.strip()}; {hint}", code="row-is-present")
    print(refusal.to_json() if form is Form.JSON else "\n".join(refusal.lines()))
