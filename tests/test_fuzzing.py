"""Random inputs for every reader end with a result or a DbspError; `python -m benchmarks fuzz` runs
the long campaign."""

from __future__ import annotations

import io
import os
import time
from random import Random
from typing import Any

import pytest
from rich.console import Console

import dbsp
from benchmarks import fuzz
from benchmarks.fuzz import CRASH, DEATH, HANG, attempt, cases_of, print_campaign
from benchmarks.fuzz_cases import FAILED, KINDS, OK, REFUSED, Case
from benchmarks.fuzz_programs import ProgramWriter

COUNTS = {"programs": 12, "facts": 60, "scripts": 60, "circuits": 40}


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_every_kind(kind: str) -> None:
    for case in cases_of(COUNTS[kind], 0, kind):
        outcome, text = attempt(case)
        assert outcome in (OK, REFUSED, FAILED), f"{case}: {text}"


def test_most_random_programs_compile() -> None:
    compiled = 0
    for seed in range(40):
        text = ProgramWriter(Random(seed)).program()
        assert text == ProgramWriter(Random(seed)).program()
        try:
            dbsp.compile(f"{text}\n", folders=[])
        except dbsp.CompileError:
            continue
        compiled += 1
    assert compiled >= 25


def crashing(random: Random) -> None:
    raise IndexError("a defect")


def dying(random: Random) -> None:
    os._exit(3)


def hanging(random: Random) -> None:
    time.sleep(1000)


def accepted(random: Random) -> None:
    random.random()


OUTCOMES: dict[str, Any] = {CRASH: crashing, DEATH: dying, HANG: hanging, OK: accepted}


def bad_worker(connection: Any) -> None:
    """A worker whose kinds have other outcomes."""
    KINDS.update(OUTCOMES)
    fuzz._work(connection)


def test_a_campaign_survives_crashes_deaths_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    started = fuzz._started

    def start() -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(fuzz, "_work", bad_worker)
            return started()

    monkeypatch.setattr(fuzz, "_started", start)
    kinds = [OK, CRASH, OK, DEATH, OK, HANG, OK]
    campaign = fuzz.fuzz(iter([Case(kind, 1) for kind in kinds]), seconds=10.0)
    assert campaign.outcomes == {(OK, OK): 4, (CRASH, CRASH): 1, (DEATH, DEATH): 1, (HANG, HANG): 1}
    assert [(case.kind, outcome) for case, outcome, _ in campaign.bad] == [
        (k, k) for k in (CRASH, DEATH, HANG)
    ]
    assert campaign.bad[0][2].endswith("IndexError: a defect")
    assert campaign.bad[1][2] == "exit code 3"
    printed = io.StringIO()
    print_campaign(Console(file=printed, width=100), campaign)
    assert "IndexError: a defect" in printed.getvalue()
