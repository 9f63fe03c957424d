"""The rules of incrementalisation: what D . Q . I becomes, operator by operator.

    Q^D = D . Q . I         (DBSP paper, arXiv 2203.16684, definition 3.1)

Every rule is one function with its equation. Given a node of the query and the streams of deltas
D(a), D(b), ... of its inputs, it adds the nodes that compute the delta of the node's output.
`incremental_circuit` applies them from the inputs to the outputs and keeps a record of which fired where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.operators.time.change import Change
from dbsp.operators.time.integrate import old_integral
from dbsp.operators.time.multilinear_terms import Terms
from dbsp.operators.time.nested import Nested

Apply: TypeAlias = Callable[[Rewriting, Node, Sequence[Stream]], Stream]


@dataclass(frozen=True)
class Law:
    """A rule by its name, with what it states and where that is proved."""

    name: str
    equation: str
    reference: str
    apply: Apply


LAWS: dict[str, Law] = {}


def _rule(name: str, equation: str, reference: str) -> Callable[[Apply], Apply]:
    def register(apply: Apply) -> Apply:
        LAWS[name] = Law(name, equation, reference, apply)
        return apply

    return register


@_rule("source", "D(I(s)) = s", "arXiv 2203.16684, theorem 2.20")
def source(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """What enters the circuit is a stream of deltas already: D meets I and both vanish."""
    return node.operator.copy(rewriting, node, deltas)


@_rule("linear", "D(f(a, b, ...)) = f(D(a), D(b), ...)", "arXiv 2203.16684, theorem 3.3")
def linear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A linear operator is its own incremental form."""
    return node.operator.copy(rewriting, node, deltas)


@_rule(
    "bilinear",
    "D(a x b) = D(a) x z^-1(I(D(b))) + I(D(a)) x D(b)",
    "arXiv 2203.16684, theorem 3.4, with two terms of the three put together",
)
def bilinear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Each side's delta meets the integral of the other; one of them is the old integral."""
    return multilinear(rewriting, node, deltas)


@_rule(
    "multilinear",
    "D(a1 x ... x an) = sum over i of I(D(a1)) x ... x D(ai) x ... x z^-1(I(D(an)))",
    "Ammar et al., VLDB 2018, section 3.1; arXiv 2203.16684, theorem 3.4, applied n - 1 times",
)
def multilinear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """One term per input: its delta meets the new integrals before it and the old ones after it."""
    return Terms(node.operator).over(rewriting, deltas)


@_rule(
    "distinct",
    "D(distinct(a)) = distinct(old + D(a)) - distinct(old),  old = z^-1(I(D(a)))",
    "arXiv 2203.16684, proposition 4.7",
)
def distinct(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Only rows of the delta can enter or leave a set."""
    (a,) = deltas
    return rewriting.add(Change(node.operator), old_integral(rewriting, a), a)


@_rule(
    "aggregate",
    "D(f(a)) = f(old + D(a)) - f(old),  old = z^-1(I(D(a)))",
    "arXiv 2203.16684, section 7.2",
)
def aggregate(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A function of groups changes only in the groups of the delta."""
    old = [old_integral(rewriting, a) for a in deltas]
    return rewriting.add(Change(node.operator), *old, *deltas)


@_rule("changes", "D(I(f(D(a)))) = f(D(a))", "arXiv 2203.16684, theorem 2.20")
def changes(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """An operator on streams of changes, and not on Z-sets, reads them as they are."""
    return node.operator.copy(rewriting, node, deltas)


@_rule("delay", "D(z^-1(a)) = z^-1(D(a))", "arXiv 2203.16684, theorem 3.3 (time invariance)")
def delay(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Delay, integral and difference commute; a cycle is incrementalised inside (corollary 3.5)."""
    return node.operator.copy(rewriting, node, deltas)


@_rule(
    "nested",
    "D(f(a, ...)) = alternating sum of f at the corners below each time",
    "arXiv 2203.16684, section 5; Differential dataflow, CIDR 2013, section 3",
)
def nested(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Inside a scope whatever is not linear is differentiated by ticks and by iterations."""
    return rewriting.add(Nested(node.operator), *deltas)


@_rule(
    "fixpoint",
    "D(fix(body)) = fix(D(body)),  D(delta_0(a)) = delta_0(D(a))",
    "arXiv 2203.16684, theorem 5.3",
)
def fixpoint(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A scope is incrementalised inside, in both of its time dimensions."""
    return node.operator.copy(rewriting, node, deltas)


@_rule("output", "D(I(s)) = s", "arXiv 2203.16684, theorem 2.20")
def output(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """The delta of the result is what leaves the circuit."""
    return node.operator.copy(rewriting, node, deltas)


@dataclass(frozen=True)
class LawApplication:
    """One application of a rule: to which node, and how many nodes came of it."""

    rule: Law
    node: str
    added: int

    def __str__(self) -> str:
        return f"{self.rule.name:<10} {self.node}:  {self.rule.equation}"


def incremental_form(firings: list[LawApplication]) -> Callable[[Rewriting, Node, Sequence[Stream]], Stream]:
    """The form that applies the rules, noting each application in `firings`."""

    def form(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
        law = node.operator.law
        inside = any(delta.graph.parent is not None for delta in deltas)
        rule = LAWS[
            "nested" if inside and law in ("bilinear", "multilinear", "distinct", "aggregate") else law
        ]
        graph = rewriting.graph_of(node.graph)
        before = len(graph.nodes)
        stream = rule.apply(rewriting, node, deltas)
        firings.append(LawApplication(rule, node.describe(), len(graph.nodes) - before))
        return stream

    return form
