"""The reports of a sharded run: what each shard reports about its part, gathered and summed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial, reduce
from operator import add
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Node
from dbsp.data.batch import Batch
from dbsp.data.zset import ZSet
from dbsp.display.report_text import Report
from dbsp.runtime.latest_tick import not_kept, tick_of_update
from dbsp.runtime.ticks import Ticks
from dbsp.shards import shard_questions
from dbsp.shards.shard_questions import Question
from dbsp.shards.shard_report import report_lines
from dbsp.shards.shard_stats import ShardStats


class GatheredReports(Ticks):
    """The part of a sharded run that reports on its shards."""

    @abstractmethod
    def ask(self, question: Question) -> list[Any]:
        """Return by shard the answer to a question."""

    @abstractmethod
    def stats(self) -> list[ShardStats]:
        """Return the statistics by shard."""

    @abstractmethod
    def recursion_lines(self) -> Iterator[str]:
        """Yield which recursions run on the first shard, and which exchange rows."""

    @abstractmethod
    def read_input(self, name: str) -> Batch:
        """Return the rows of an input from all shards."""

    def asserted(self, name: str) -> ZSet:
        """Return the inserted rows of an input, as `Run.asserted`, from all shards."""
        port = self.input_port(name)
        return ZSet.wrap(port.columns, self.interner, self.read_input(name)).positive()

    def latest_input(self, name: str) -> Batch | None:
        if self._latest is not None and self._latest.update:
            raise tick_of_update(self.tick)
        parts = self.ask(partial(shard_questions.input_change, name=name))
        rows = [row for part in parts for row in (part or ((), ()))[0]]
        if None in parts or len(rows) > self.kept_changes:
            raise not_kept(self.tick, self._latest, self.kept_changes, name)
        weights = [weight for part in parts for weight in part[1]]
        schema = self.input_port(name).columns
        change = ZSet.from_rows(rows, weights, schema, self.interner)
        return change.stored if len(change) else None

    @ends_at_caller
    def explain(self) -> str:
        """Describe how rows and work are spread over the shards, as text.

        The text lists the state of each shard, and for each exchange the rows and bytes that it has
        moved since the start, how evenly they were spread, and the heaviest key of the rows that
        are kept by that key. Cost: sorting the rows of these traces.

        Returns:
            The text.

        Raises:
            ShardError: the run is closed, or the process of a shard has ended.

        Examples:
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int, kind="set"))
            >>> with circuit.start(shards=1) as run:
            ...     _ = run.step({"sale": [(7,), (3,)]})
            ...     print(run.explain().splitlines()[0])
            1 shard, 2 rows in all
        """
        stats, keys = self.stats(), self._by_node(shard_questions.heavy_keys)
        recursions = list(self.recursion_lines())
        lines = [*report_lines(self.graph, stats, keys), *(["recursions"] if recursions else []), *recursions]
        return Report("\n".join(lines))

    # --- the reports of a run ---------------------------------------------------------------------

    def kept(self) -> dict[Node, tuple[int, int]]:
        """Return the rows and bytes of every trace by node, over all shards."""
        return {
            node: (sum(rows for rows, _ in found), sum(size for _, size in found))
            for node, found in self._by_node(shard_questions.kept).items()
        }

    def join_terms(self) -> dict[Node, tuple[Any, ...]]:
        """Return by multi-way join the counts of its delta terms, over all shards."""
        found = self._by_node(shard_questions.join_terms)
        return {
            node: tuple(reduce(add, of_term) for of_term in zip(*parts, strict=True))
            for node, parts in found.items()
        }

    def evaluations(self) -> dict[Node, str]:
        """Return the recursion mode of each fixpoint; with several if the shards differ."""
        found = self._by_node(shard_questions.evaluations)
        return {node: " / ".join(dict.fromkeys(texts)) for node, texts in found.items()}

    def iterations(self) -> dict[str, int]:
        """Return the largest number of iterations of each fixpoint in the latest tick, by name."""
        found: dict[str, int] = {}
        for answer in self.ask(shard_questions.iterations):
            for name, number in answer.items():
                found[name] = max(number, found.get(name, 0))
        return found

    @property
    def state_rows(self) -> int:
        """The number of rows kept in all traces and tables of all shards."""
        return sum(stats.rows for stats in self.stats())

    @property
    def state_bytes(self) -> int:
        """The bytes in memory of the state of all shards."""
        return sum(stats.bytes for stats in self.stats())

    @property
    def file_bytes(self) -> int:
        """The bytes of the files of the state of all shards."""
        return sum(stats.file_bytes for stats in self.stats())

    def _by_node(self, question: Question) -> dict[Node, list[Any]]:
        """Return by node what the shards answer about it."""
        nodes = list(self.graph.walk())
        found: dict[Node, list[Any]] = {}
        for answer in self.ask(question):
            for position, fact in answer.items():
                found.setdefault(nodes[position], []).append(fact)
        return found
