"""Errors for attributes that runs and results of ticks do not have, with what to write.

Other libraries have other names for what runs do, relations are not attributes, and circuits and
programs do nothing before they are started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dbsp.data.schema import suggestion

_STEP = "run.step({name: rows})"
_VIEW = "run.view(name)"
_DELTA = "run.step(...)[name], or run.changed(name) for the latest tick"
_END = "run.log.close() for a run with a checkpoint; other runs need no end"
_INSTEAD = {
    "apply": _STEP,
    "callback": "run.subscribe(name, function)",
    "changes": _DELTA,
    "checkpoint": "start(checkpoint=folder), and run.snapshot()",
    "close": _END,
    "collect": _VIEW,
    "columns": "run.inputs[name] or run.outputs[name]",
    "delete": "run.input(name).delete(rows)",
    "delta": _DELTA,
    "deltas": _DELTA,
    "execute": _STEP,
    "explain": "program.explain(run), or run.stats() for a circuit",
    "feed": _STEP,
    "get": _VIEW,
    "insert": "run.input(name).insert(rows)",
    "load": _STEP,
    "on_change": "run.subscribe(name, function)",
    "output": _VIEW,
    "plot": "run.draw()",
    "push": _STEP,
    "q": "run.subscribe(query), or program.query(run, query)",
    "query": "run.subscribe(query), or program.query(run, query)",
    "read": _VIEW,
    "remove": "run.input(name).delete(rows)",
    "render": "run.draw()",
    "result": _VIEW,
    "results": _VIEW,
    "run": _STEP,
    "save": "start(checkpoint=folder), and run.snapshot()",
    "schema": "run.inputs[name] or run.outputs[name]",
    "send": _STEP,
    "show": "run.draw()",
    "stop": _END,
    "table": _VIEW,
    "transact": _STEP,
    "upsert": "run.input(name).upsert(rows)",
    "views": "run.view(name); the names are in run.outputs",
    "why": "program.why(run, relation, row)",
    "why_not": "program.why_not(run, relation, row)",
}


def unknown_member(
    name: str, members: Iterable[str], inputs: Collection[str], outputs: Collection[str]
) -> AttributeError:
    """Return the error for an attribute of a run with these members and relations."""
    if name in outputs:
        advice = f'; the rows are run.view("{name}")'
    elif name in inputs:
        advice = f'; the input is run.input("{name}")'
    elif name in _INSTEAD:
        advice = f"; write {_INSTEAD[name]}"
    else:
        advice = suggestion(name, members)
    return AttributeError(f"a run has no '{name}'{advice}")


def unknown_before_start(
    kind: str, name: str, members: Iterable[str], members_of_runs: Collection[str]
) -> AttributeError:
    """Return the error for an attribute of a circuit or program (the `kind`) with these members."""
    if name in _INSTEAD:
        advice = f"; write run = {kind}.start(), then {_INSTEAD[name]}"
    elif name in members_of_runs:
        advice = f"; write run = {kind}.start(), then run.{name}"
    else:
        advice = suggestion(name, members)
    return AttributeError(f"a {kind} has no '{name}'{advice}")


def unknown_part(name: str, outputs: Collection[str]) -> AttributeError:
    """Return the error for an attribute of the result of a tick with these outputs."""
    advice = f'; the delta is result["{name}"]' if name in outputs else ""
    return AttributeError(f"the result of a tick has no '{name}'{advice}")
