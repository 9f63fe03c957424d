"""The views of program.dl from scratch in plain Python: the baseline and the check of the demo."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from examples.stdlib_demo.extract import Facts, Row

DANGERS = (
    *("os.system", "os.popen", "os.fork", "os.execve", "os.posix_spawn", "subprocess.Popen"),
    *("_posixsubprocess.fork_exec", "_winapi.CreateProcess", "builtins.eval", "builtins.exec"),
    *("pickle.loads", "marshal.loads"),
)

View = set[tuple[Any, ...]]


def recompute(facts: Facts) -> dict[str, View]:
    """Compute every output relation of program.dl by depth-first searches."""
    loads = _neighbours(facts.imports)
    reached = {module: _search(loads, module) for module in loads}
    reaches = {(m, n) for m, found in reached.items() for n in found}
    callers = _neighbours((callee, caller) for caller, callee in facts.calls)
    risky = {(function, danger) for danger in DANGERS for function in _search(callers, danger)}
    home = defaultdict(set)
    for function, module in facts.defines:
        home[function].add(module)
    exposed = Counter((module, danger) for function, danger in risky for module in home.get(function, ()))
    imported = {n for _, n in facts.imports} | {n for _, n in facts.defers}
    return {
        "reaches": set(reaches),
        "footprint": {(m, len(reached.get(m, ()))) for m, _ in facts.module},
        "cycle": {(m, n) for m, n in reaches if m < n and (n, m) in reaches},
        "held_back": {(m, n) for m, n in facts.defers if (n, m) in reaches and (m, n) not in reaches},
        "unused": {(m,) for m, _ in facts.module if m not in imported},
        "risky": set(risky),
        "exposure": {(module, danger, n) for (module, danger), n in exposed.items()},
    }


def _neighbours(rows: Iterable[Row]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for here, there in rows:
        found[here].add(there)
    return dict(found)


def _search(neighbours: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the nodes reachable in one or more steps."""
    found: set[str] = set()
    todo = [start]
    while todo:
        fresh = neighbours.get(todo.pop(), set()) - found
        found |= fresh
        todo.extend(fresh)
    return found
