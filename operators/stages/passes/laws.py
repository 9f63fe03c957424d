"""The laws of incrementalisation: the form of D . Q . I for each kind of operator.

    Q^D = D . Q . I         (DBSP paper, arXiv 2203.16684, definition 3.1)

Every law is one function with its equation. Given a node of the query and the streams of deltas
D(a), D(b), ... of its inputs, it adds the nodes that compute the delta of the output.
`incremental_circuit` applies the laws from the inputs to the outputs and records each application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.semijoin_terms import SemijoinTerms
from dbsp.operators.time.change import Change
from dbsp.operators.time.integrate import old_integral
from dbsp.operators.time.multilinear_terms import Terms
from dbsp.operators.time.nested import Nested

Form: TypeAlias = Callable[[Rewriting, Node, Sequence[Stream]], Stream]


@dataclass(frozen=True)
class Law:
    """A law: its name, its equation, and a reference to the proof."""

    name: str
    equation: str
    reference: str
    apply: Form


LAWS: dict[str, Law] = {}


def _law(name: str, equation: str, reference: str) -> Callable[[Form], Form]:
    def register(apply: Form) -> Form:
        LAWS[name] = Law(name, equation, reference, apply)
        return apply

    return register


@_law("source", "D(I(s)) = s", "arXiv 2203.16684, theorem 2.20")
def source(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """An input is already a stream of deltas: D and I cancel."""
    return node.operator.copy(rewriting, node, deltas)


@_law("linear", "D(f(a, b, ...)) = f(D(a), D(b), ...)", "arXiv 2203.16684, theorem 3.3")
def linear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A linear operator is its own incremental form."""
    return node.operator.copy(rewriting, node, deltas)


@_law(
    "bilinear",
    "D(a x b) = D(a) x z^-1(I(D(b))) + I(D(a)) x D(b)",
    "arXiv 2203.16684, theorem 3.4, with two of the three terms combined",
)
def bilinear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """The delta of each side joins the integral of the other side; one of the two is the old
    one."""
    return multilinear(rewriting, node, deltas)


@_law(
    "multilinear",
    "D(a1 x ... x an) = sum over i of I(D(a1)) x ... x D(ai) x ... x z^-1(I(D(an)))",
    "Ammar et al., VLDB 2018, section 3.1; arXiv 2203.16684, theorem 3.4, applied n - 1 times",
)
def multilinear(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """One term per input: its delta joins the new integrals before it and the old ones after it."""
    return Terms(node.operator).over(rewriting, deltas)


@_law(
    "semijoin",
    "D(a semijoin b) = D(a) semijoin I(D(b)) + z^-1(I(D(a))) x D(distinct(b))",
    "arXiv 2203.16684, theorem 3.4 and proposition 4.7",
)
def semijoin(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """New rows look up their key in B; old rows come or go with a key of B."""
    return SemijoinTerms(node.operator).over(rewriting, *deltas)


@_law(
    "antijoin",
    "D(a antijoin b) = D(a) antijoin I(D(b)) - z^-1(I(D(a))) x D(distinct(b))",
    "arXiv 2203.16684, theorem 3.4 and proposition 4.7",
)
def antijoin(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """New rows look up their key in B; old rows go or come with a key of B."""
    return SemijoinTerms(node.operator).over(rewriting, *deltas)


@_law(
    "distinct",
    "D(distinct(a)) = distinct(old + D(a)) - distinct(old),  old = z^-1(I(D(a)))",
    "arXiv 2203.16684, proposition 4.7",
)
def distinct(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Only rows of the delta can enter or leave a set."""
    (a,) = deltas
    return rewriting.add(Change(node.operator), old_integral(rewriting, a), a)


@_law(
    "aggregate",
    "D(f(a)) = f(old + D(a)) - f(old),  old = z^-1(I(D(a)))",
    "arXiv 2203.16684, section 7.2",
)
def aggregate(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A function of groups changes only in the groups of the delta."""
    old = [old_integral(rewriting, a) for a in deltas]
    return rewriting.add(Change(node.operator), *old, *deltas)


@_law("changes", "D(I(f(D(a)))) = f(D(a))", "arXiv 2203.16684, theorem 2.20")
def changes(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """An operator on streams of changes, not on Z-sets, reads the deltas directly."""
    return node.operator.copy(rewriting, node, deltas)


@_law("delay", "D(z^-1(a)) = z^-1(D(a))", "arXiv 2203.16684, theorem 3.3 (time invariance)")
def delay(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Delay, integral and difference commute; a cycle is incrementalised inside (corollary 3.5)."""
    return node.operator.copy(rewriting, node, deltas)


@_law(
    "nested",
    "D(f(a, ...)) = alternating sum of f at the corners below each time",
    "arXiv 2203.16684, section 5; Differential dataflow, CIDR 2013, section 3",
)
def nested(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """Inside a scope, an operator that is not linear is differentiated by ticks and iterations."""
    return rewriting.add(Nested(node.operator), *deltas)


@_law(
    "fixpoint",
    "D(fix(body)) = fix(D(body)),  D(delta_0(a)) = delta_0(D(a))",
    "arXiv 2203.16684, theorem 5.3",
)
def fixpoint(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """A scope is incrementalised inside, in both of its time dimensions."""
    return node.operator.copy(rewriting, node, deltas)


@_law("output", "D(I(s)) = s", "arXiv 2203.16684, theorem 2.20")
def output(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
    """An output emits the delta of the result."""
    return node.operator.copy(rewriting, node, deltas)


_NOT_LINEAR = ("bilinear", "multilinear", "semijoin", "antijoin", "distinct", "aggregate")
"""The laws that the law "nested" replaces inside of scopes."""


@dataclass(frozen=True)
class LawApplication:
    """One application of a law: the node, and the number of nodes it added."""

    law: Law
    node: str
    added: int

    def __str__(self) -> str:
        return f"{self.law.name:<10} {self.node}:  {self.law.equation}"


def incremental_form(
    applications: list[LawApplication],
) -> Form:
    """Return the form that applies the laws and appends each application to `applications`."""

    def form(rewriting: Rewriting, node: Node, deltas: Sequence[Stream]) -> Stream:
        name = node.operator.law
        inside = any(delta.graph.parent is not None for delta in deltas)
        if inside and name in _NOT_LINEAR:
            name = "nested"
        law = LAWS[name]
        graph = rewriting.graph_of(node.graph)
        before = len(graph.nodes)
        stream = law.apply(rewriting, node, deltas)
        applications.append(LawApplication(law, node.describe(), len(graph.nodes) - before))
        return stream

    return form
