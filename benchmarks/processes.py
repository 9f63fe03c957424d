"""New processes, and the time and memory of this process and of those below it (Linux's /proc)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Peaks:
    """The most memory of this process, of Spark and of the largest worker, in bytes."""

    python: int
    java: int
    worker: int


def in_new_process(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a call in a new process, which shares no memory and no compiled code.

    Raises BrokenProcessPool if the process dies.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def below() -> dict[int, int]:
    """Return this process and those below it, each with its parent."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if (fields := _fields(folder)) is not None:
            parents[int(folder.name)] = int(fields[1])
    found = {os.getpid(): 0}
    while more := {pid: up for pid, up in parents.items() if up in found and pid not in found}:
        found |= more
    return found


def processor_seconds() -> float:
    """The processor time of this process and of those below it, with ended ones. Steps of 10 ms."""
    total = 0
    for pid in below():
        if (fields := _fields(Path(f"/proc/{pid}"))) is not None:
            total += sum(map(int, fields[11:15]))
    return total / _TICK


def forget_peaks() -> None:
    """Let the peaks start from the present memory."""
    for pid in below():
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            continue  # the process has ended


def peaks() -> Peaks:
    """Return the peaks since `forget_peaks`."""
    sizes = {pid: _peak(pid) for pid in below()}
    own = os.getpid()
    java = [pid for pid in sizes if _name(pid) == "java"]
    return Peaks(
        sizes[own],
        max((sizes[pid] for pid in java), default=0),
        max((size for pid, size in sizes.items() if pid != own and pid not in java), default=0),
    )


def _fields(folder: Path) -> list[str] | None:
    """Return what Linux says of a process after its name: state, parent, ..."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # the process has ended


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)
