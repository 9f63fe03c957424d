"""What an update of a run kept, changed, rebuilt, added and dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph, Node
from dbsp.display.displayed import Displayed
from dbsp.errors import counted
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.port_match import inputs_of, outputs_of
from dbsp.runtime.scope import Scope
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.transplant import Transplant

if TYPE_CHECKING:
    from dbsp.display.document import Document

STATES = KEPT, CHANGED, REBUILT, ADDED, DROPPED = "kept", "changed", "rebuilt", "added", "dropped"


@dataclass(frozen=True)
class Updated(Displayed):
    """The result of `Run.update`.

    Examples:
        >>> text = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x), x > 1."
        >>> run = dbsp.compile(text).start({"a": [(1,), (2,), (3,)]})
        >>> run.update(dbsp.compile(text.replace("x > 1", "x > 2"))).relations["b"]
        'rebuilt'
    """

    deltas: TickResult
    """The change of every output of the new program, as of a tick."""
    relations: Mapping[str, str]
    """By relation of the circuits, what happened to it: one of `STATES`."""
    kept: int
    """The number of traces and tables that the new circuit took over unchanged."""
    changed: int
    """The number of traces and tables that the new circuit took over, and that took the difference
    of the edit."""
    rebuilt: int
    """The number of traces and tables that were filled from others."""
    dropped: int
    """The number of traces and tables that the new circuit does not need."""
    replayed_rows: int
    """The number of rows that were read from kept traces to fill the new ones."""

    def names(self, state: str) -> tuple[str, ...]:
        """Return the names of the relations in one state, sorted.

        Parameters:
            state: "kept", "changed", "rebuilt", "added" or "dropped".

        Examples:
            >>> text = ".decl a(x: number) .input a .decl b(x: number) .output b b(x) :- a(x)."
            >>> run = dbsp.compile(text).start()
            >>> more = ".decl c(x: number) .output c c(x) :- b(x), x > 1."
            >>> done = run.update(dbsp.compile(text + more))
            >>> done.names("kept"), done.names("added")
            (('a', 'b'), ('c',))
        """
        return _names(self.relations, state)

    def _display(self) -> Document:
        from dbsp.display.document import Document, code_of

        return Document((), (code_of(str(self), 100),))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            f"tick {self.deltas.number}: {self.kept} traces kept, {self.changed} changed, "
            f"{self.rebuilt} rebuilt, "
            f"{self.dropped} dropped; {counted(self.replayed_rows, 'row')} read from kept traces, "
            f"{self.deltas.seconds:.3f} s"
        )
        yield from state_lines(self.relations)


def state_lines(relations: Mapping[str, str], begin: str = "  ") -> Iterator[str]:
    """Yield a line for each state with the names of its relations; each starts with `begin`."""
    for state in STATES:
        names = _names(relations, state)
        if names:
            yield f"{begin}{state}: {', '.join(names)}"


def _names(relations: Mapping[str, str], state: str) -> tuple[str, ...]:
    return tuple(sorted(name for name, found in relations.items() if found == state))


def states_of_relations(transplant: Transplant) -> dict[str, str]:
    """Return what happened to each relation of the two circuits.

    A relation with a new name is kept if the old circuit has its stream under another name. A
    relation that has become equal to another kept one is not kept: its rows change.
    """
    before, after = _relations(transplant.old), _relations(transplant.scope)
    found: dict[str, str] = {}
    for name, node in after.items():
        known = before.get(name)
        if transplant.keeps(node) and (known is None or transplant.same_stream(known, node)):
            found[name] = KEPT
        elif known is not None and transplant.changes(known, node):
            found[name] = CHANGED
        else:
            found[name] = ADDED if known is None else REBUILT
    found.update((name, DROPPED) for name in before if name not in after)
    return found


def _relations(scope: Scope) -> dict[str, Node]:
    """Return the top-level node of each relation: of a recursive one, the node of its scope."""
    found = {name: port.node for name, port in inputs_of(scope).items()}
    for name, stream in scope.graph.named.items():
        found[name] = stream.node
    for name, output in outputs_of(scope).items():
        found.setdefault(name, output.node.inputs[0].node)
    holders = _holders(scope.graph)
    return {name: holders.get(node.graph, node) for name, node in found.items()}


def _holders(graph: Graph) -> dict[Graph, Node]:
    """Return by nested scope the top-level node that holds it."""
    holders: dict[Graph, Node] = {}
    for node in graph.nodes:
        waiting = list(node.operator.children())
        while waiting:
            inside = waiting.pop()
            holders[inside] = node
            waiting += (child for each in inside.nodes for child in each.operator.children())
    return holders
