"""What a run reports of its steps: statistics, iterations, what is kept, how it is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import ReportingStep, TracedStep
from dbsp.runtime import observation
from dbsp.runtime.memory import give_back
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.scope import Scope


class Inspection(RunBase):
    """The part of a run that observes its steps and their state."""

    def observe(self, on: bool = True) -> None:
        """Switch statistics per node on (from zero) or off."""
        observation.observe(self.scope, on)

    def stats(self) -> list[NodeStats]:
        """What every node has done since `observe()`, those of nested scopes after their scope."""
        return observation.collect(self.scope)

    def join_terms(self) -> dict[Node, tuple[Any, ...]]:
        """By multi-way join, what each of its delta terms has met: changed rows, prefixes per
        level.

        Counted since the start of the run, in ticks that failed too; nested scopes over all
        iterations.
        """
        return self.reported("join terms")

    def evaluations(self) -> dict[Node, str]:
        """By fixpoint, how it is evaluated at present (see `dbsp.operators.recursion.modes`)."""
        return self.reported("evaluation")

    def reported(self, fact: str) -> dict[Node, Any]:
        """By node, a fact that steps of its kind report of themselves (see `ReportingStep`)."""
        reports = {
            node: step.report() for node, step in _steps(self.scope) if isinstance(step, ReportingStep)
        }
        return {node: facts[fact] for node, facts in reports.items() if fact in facts}

    def kept(self) -> dict[Node, tuple[int, int]]:
        """The rows and bytes of every trace, by node; includes retracted rows not merged yet."""
        return {
            node: (step.trace.rows, step.trace.nbytes)
            for node, step in _steps(self.scope)
            if isinstance(step, TracedStep)
        }

    def iterations(self) -> dict[str, int]:
        """How often each fixpoint was iterated in the latest tick, by name; 0 when it had nothing
        to do.

        A scope within another one is named `outer/inner`, and counts its latest run.
        """
        return dict(_iterations(self.scope, ""))

    @property
    def state_rows(self) -> int:
        """Rows kept in all traces and tables."""
        scope = self.scope
        return sum(trace.rows for trace in scope.traces) + sum(table.rows for table in scope.tables)

    @property
    def state_bytes(self) -> int:
        """Bytes of the rows and weights kept in all traces, and of the tables."""
        scope = self.scope
        return sum(trace.nbytes for trace in scope.traces) + sum(table.nbytes for table in scope.tables)

    def compact(self) -> None:
        """Merge every trace into one run, so that nothing retracted takes room any more.

        Also lets go of the deltas of the latest tick inside of the circuit, and gives freed memory
        back to the system.
        """
        self.scope.forget()
        for trace in self.scope.traces:
            trace.compact()
        give_back()


def _steps(scope: Scope) -> Iterator[tuple[Node, Step]]:
    """Every node with its step, those of nested scopes after their scope."""
    for each_scope in scope.scopes():
        yield from each_scope.by_node.items()


def _iterations(scope: Scope, prefix: str) -> Iterator[tuple[str, int]]:
    for child in scope.children:
        name = prefix + child.graph.name
        yield name, child.iterations
        yield from _iterations(child, f"{name}/")
