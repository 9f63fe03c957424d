"""Reports of a run about its steps: statistics, iterations, kept rows, modes of evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import ReportingStep, TracedStep
from dbsp.errors import ArgumentError
from dbsp.runtime import observation
from dbsp.runtime.node_stats import NodeStats
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.scope import Scope
from dbsp.state.shared_codes import stored_bytes

if TYPE_CHECKING:
    from dbsp.circuit.circuit_drawing import CircuitDrawing
    from dbsp.circuit.pictures.colours import Profile
    from dbsp.circuit.pictures.grouping import Collapse
    from dbsp.circuit.pictures.selection import PathMeasure


class Inspection(RunBase):
    """The part of a run that observes its steps and their state."""

    def observe(self, on: bool = True) -> None:
        """Switch statistics per node on, starting at zero, or off.

        Parameters:
            on: whether to collect statistics.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> run.observe()
            >>> _ = run.step({"sale": [(7,), (3,)]})
            >>> run.stats()[0].rows_out
            2
            >>> run.observe(False)
            >>> run.stats()
            []
        """
        observation.observe(self.scope, on)

    def stats(self) -> list[NodeStats]:
        """Return the statistics of every node since `observe()`; empty if they are off.

        The nodes of a nested scope come after the scope.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start()
            >>> run.observe()
            >>> _ = run.step({"sale": [(7,), (3,)]})
            >>> [(stats.steps, stats.rows_out) for stats in run.stats() if stats.node.label == "Output all"]
            [(1, 2)]
        """
        return observation.collect(self.scope)

    def draw(
        self,
        path: str | Path | None = None,
        *,
        profile: Profile | None = None,
        only: str | None = None,
        readers: bool = False,
        depth: int | None = None,
        collapse: Collapse | None = None,
        critical: PathMeasure | None = None,
        title: str | None = None,
    ) -> CircuitDrawing:
        """Draw the circuit of the run with the rows and bytes of its state, and its statistics.

        Time and rows are those since `observe()`; without it, only the state is known.

        Parameters:
            path: a file to write, in the format of its suffix (see `CircuitDrawing.write`); by
                default no file is written.
            profile: colour the nodes by their "time", by the "rows" that they emitted, or by the
                bytes of their "state"; the width of an arrow then shows its rows.
            only: the name of a relation; only what leads to it is drawn.
            readers: draw what depends on the relation, too.
            depth: the greatest number of arrows from the relation.
            collapse: draw one node for each rule ("rules"), for each relation or recursive scope
                ("strata"), or for each scope ("scopes").
            critical: mark the longest path, by the number of its "nodes" or by their "time".
            title: the heading; by default the name of the circuit.

        Returns:
            The drawing, which a notebook shows as a picture.

        Raises:
            ArgumentError: an option is wrong, there is no relation `only`, or the option needs
                statistics and `observe()` was not called.
            SetupError: Graphviz is not installed, and `path` needs it.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> run = circuit.start()
            >>> run.observe()
            >>> _ = run.step({"sale": [(7,), (3,)]})
            >>> [line.text for line in run.draw(profile="rows").picture.legend][:2]
            ['colour: rows emitted, of 5 rows in all nodes', '0 rows']
        """
        from dbsp.circuit.circuit_drawing import drawing_of  # loads slowly
        from dbsp.circuit.pictures.circuit_picture import circuit_picture

        measured = observation.measurements(self.scope, self.kept())
        for option, needed in (("profile", profile in ("time", "rows")), ("critical", critical == "time")):
            if needed and not observation.collect(self.scope):
                value = profile if option == "profile" else critical
                raise ArgumentError(
                    f"{option}={value!r} needs statistics, and the run has none; call run.observe() before "
                    "the ticks to measure"
                )
        return drawing_of(
            circuit_picture(self.scope.graph, measured),
            path,
            only=only,
            readers=readers,
            depth=depth,
            collapse=collapse,
            critical=critical,
            profile=profile,
            title=title,
        )

    def join_terms(self) -> dict[Node, tuple[Any, ...]]:
        """Return by multi-way join the counts of its delta terms: changed rows, prefixes per level.

        Counted since the start of the run, failed ticks included; nested scopes over all
        iterations.
        """
        return self.reported("join terms")

    def evaluations(self) -> dict[Node, str]:
        """Return the recursion mode of each fixpoint (see `dbsp.operators.recursion.modes`)."""
        return self.reported("evaluation")

    def reported(self, fact: str) -> dict[Node, Any]:
        """Return by node a fact that the steps report about themselves (see `ReportingStep`)."""
        reports = {
            node: step.report() for node, step in _steps(self.scope) if isinstance(step, ReportingStep)
        }
        return {node: facts[fact] for node, facts in reports.items() if fact in facts}

    def kept(self) -> dict[Node, tuple[int, int]]:
        """Return the rows and bytes of every trace by node, retracted unmerged rows included."""
        return {
            node: (step.trace.rows, step.trace.nbytes)
            for node, step in _steps(self.scope)
            if isinstance(step, TracedStep)
        }

    def iterations(self) -> dict[str, int]:
        """Return the number of iterations of each fixpoint in the latest tick, by name.

        It is 0 when no input of the fixpoint changed. A scope within another one is named
        `outer/inner`, and counts its latest run.

        Examples:
            >>> program = dbsp.compile('''
            ...     .decl edge(x: number, y: number) .input edge
            ...     .decl path(x: number, y: number) .output path
            ...     path(x, y) :- edge(x, y).
            ...     path(x, z) :- path(x, y), edge(y, z).
            ... ''')
            >>> run = program.start()
            >>> _ = run.step({"edge": [(1, 2), (2, 3), (3, 4)]})
            >>> run.iterations()
            {'path': 4}
        """
        return dict(_iterations(self.scope, ""))

    @property
    def state_rows(self) -> int:
        """The number of rows kept in all traces and tables."""
        scope = self.scope
        return sum(trace.rows for trace in scope.traces) + sum(table.rows for table in scope.tables)

    @property
    def state_bytes(self) -> int:
        """The bytes in memory of the rows and weights in all traces, and of the tables."""
        scope = self.scope
        return stored_bytes(scope.traces) + sum(table.nbytes for table in scope.tables)

    @property
    def file_bytes(self) -> int:
        """The bytes of the files of the state that is not in memory.

        These are mapped: the system keeps the pages that are in use in memory, and drops them when
        it needs the memory.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("sales", circuit.input("sale", x=int, kind="set"))
            >>> run = circuit.start(memory_limit="100K")
            >>> _ = run.step({"sale": [(x,) for x in range(20_000)]})
            >>> run.state_bytes < 50_000, run.file_bytes > 80_000
            (True, True)
        """
        return sum(trace.file_bytes for trace in self.scope.traces)


def _steps(scope: Scope) -> Iterator[tuple[Node, Step]]:
    """Yield every node with its step, those of a nested scope after the scope."""
    for each_scope in scope.scopes():
        yield from each_scope.by_node.items()


def _iterations(scope: Scope, prefix: str) -> Iterator[tuple[str, int]]:
    for child in scope.children:
        name = prefix + child.graph.name
        yield name, child.iterations
        yield from _iterations(child, f"{name}/")
