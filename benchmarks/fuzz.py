"""Fuzzing: random inputs for every reader of dbsp, each in a worker process with a watchdog.

A case is bad if it raises another exception than DbspError, if its process dies, or if it takes
longer than `SECONDS`.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from rich.console import Console
from rich.table import Table

from benchmarks.fuzz_cases import FAILED, KINDS, OK, REFUSED, Case

SECONDS = 60.0
"""The time of one case. A worker compiles kernels in its first cases."""
MAX_MEMORY = 4 * 2**30
CRASH, DEATH, HANG = "crash", "death", "hang"
OUTCOMES = (OK, REFUSED, FAILED, CRASH, DEATH, HANG)


@dataclass
class Campaign:
    """The outcomes of many cases."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    bad: list[tuple[Case, str, str]] = field(default_factory=list)
    """The bad cases, each with its outcome and the end of its traceback."""


def fuzz(cases: Iterator[Case], seconds: float = SECONDS) -> Campaign:
    """Run the cases in a worker process, which is replaced after a bad case."""
    campaign = Campaign()
    worker: tuple[BaseProcess, Connection] | None = None
    for case in cases:
        worker = worker or _started()
        process, connection = worker
        connection.send(case)
        try:
            outcome, text = connection.recv() if connection.poll(seconds) else (HANG, f"{seconds} seconds")
        except EOFError:
            process.join()
            outcome, text = DEATH, f"exit code {process.exitcode}"
        campaign.outcomes[case.kind, outcome] += 1
        if outcome not in (OK, REFUSED, FAILED):
            campaign.bad.append((case, outcome, text))
            _stop(worker)
            worker = None
    if worker is not None:
        _stop(worker)
    return campaign


def cases_of(count: int, seed: int, kind: str | None = None) -> Iterator[Case]:
    """Yield `count` cases of one kind, or of all kinds in turn."""
    kinds = [kind] if kind else list(KINDS)
    for number in range(count):
        yield Case(kinds[number % len(kinds)], seed + number // len(kinds))


def _started() -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _stop(worker: tuple[BaseProcess, Connection]) -> None:
    process, connection = worker
    connection.close()
    process.kill()
    process.join()


def _work(connection: Connection) -> None:
    """Run cases until the connection is closed."""
    import dbsp.runtime.memory

    dbsp.runtime.memory.limit(MAX_MEMORY)
    while True:
        try:
            case: Case = connection.recv()
        except EOFError:
            return
        connection.send(attempt(case))


def attempt(case: Case) -> tuple[str, str]:
    """Return the outcome of a case, and the end of the traceback of a crash."""
    try:
        return case.run(), ""
    except Exception:  # every exception besides DbspError is what the campaign looks for
        return CRASH, "\n".join(traceback.format_exc().strip().splitlines()[-5:])


def print_campaign(console: Console, campaign: Campaign) -> None:
    """Print the number of cases by kind and outcome, and the bad cases."""
    table = Table(title="fuzzing: cases by outcome")
    table.add_column("kind")
    for outcome in OUTCOMES:
        table.add_column(outcome, justify="right")
    for kind in dict.fromkeys(kind for kind, _ in campaign.outcomes):
        table.add_row(kind, *(f"{campaign.outcomes[kind, outcome]:,}" for outcome in OUTCOMES))
    console.print(table)
    programs = {outcome: campaign.outcomes["programs", outcome] for outcome in OUTCOMES}
    if any(programs.values()):
        compiled = programs[OK] + programs[FAILED]
        console.print(f"{compiled:,} of {sum(programs.values()):,} programs compiled")
    for case, outcome, text in campaign.bad[:20]:
        console.print(f"{outcome}: {case}\n{text}", markup=False, highlight=False)
