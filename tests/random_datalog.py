"""Random small Datalog programs that are legal by construction: safe, stratified, with few values.

Relations have columns of numbers. Derived relations are in groups, one above the other: a rule uses
the relations of its own group and of those below, and negates and aggregates over those below only.
All arithmetic is modulo a small number, so every program has a finite result.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

INPUTS = {"a": 2, "b": 2, "c": 1}
NAMES = ("p", "q", "r")
VARIABLES = ("x", "y", "z", "w")
CONSTANTS = ("0", "1", "2")
MODULUS = 4


@dataclass(frozen=True)
class Derived:
    name: str
    arity: int
    group: int


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a program with the inputs a(x, y), b(x, y), c(x) and two or three outputs."""
    derived: list[Derived] = []
    for name in NAMES[: draw(st.integers(2, 3))]:
        group = derived[-1].group + draw(st.integers(0, 1)) if derived else 0
        derived.append(Derived(name, draw(st.sampled_from([2, 2, 2, 1, 1, 0])), group))
    # One rule of each relation starts it, so that the recursive ones have something to work on.
    rules = [draw(start_text(head)) for head in derived]
    rules += [draw(rule_text(head, derived)) for head in derived]
    for head in draw(st.lists(st.sampled_from(derived), max_size=2)):
        rules.append(draw(rule_text(head, derived)))
    facts = [
        f"{name}({', '.join(draw(st.sampled_from(CONSTANTS)) for _ in range(arity))})."
        for name, arity in draw(st.lists(st.sampled_from(relations_of(derived)), max_size=2))
    ]
    declarations = [
        f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))})"
        for name, arity in relations_of(derived)
    ]
    outputs = f".output {', '.join(one.name for one in derived)}"
    return "\n".join([*declarations, ".input a, b, c", outputs, *facts, *rules, ""])


def relations_of(derived: list[Derived]) -> list[tuple[str, int]]:
    return [*INPUTS.items(), *((one.name, one.arity) for one in derived)]


@st.composite
def start_text(draw: st.DrawFn, head: Derived) -> str:
    name, arity = draw(st.sampled_from([one for one in INPUTS.items() if one[1] >= head.arity]))
    body = draw(st.permutations(VARIABLES[:arity]))
    return f"{head.name}({', '.join(VARIABLES[: head.arity])}) :- {name}({', '.join(body)})."


@st.composite
def rule_text(draw: st.DrawFn, head: Derived, derived: list[Derived]) -> str:
    usable = relations_of([one for one in derived if one.group <= head.group])
    below = relations_of([one for one in derived if one.group < head.group])
    # Recursion is what is hard, so the relations of the group are drawn more often.
    own = relations_of([one for one in derived if one.group == head.group])[len(INPUTS) :]
    literals: list[str] = []
    bound: list[str] = []
    for position in range(draw(st.integers(1, 3))):
        name, arity = draw(st.sampled_from(own if position == 0 else [*usable, *own]))
        terms = [draw(st.sampled_from([*VARIABLES * 4, "_", *CONSTANTS])) for _ in range(arity)]
        bound += [term for term in terms if term in VARIABLES and term not in bound]
        literals.append(f"{name}({', '.join(terms)})")
    for kind in draw(
        st.lists(st.sampled_from(["negation", "condition", "equation", "aggregate"]), max_size=2)
    ):
        match kind:
            case "negation":
                name, arity = draw(st.sampled_from(below))
                literals.append(f"!{name}({', '.join(draw(value(bound, '_')) for _ in range(arity))})")
            case "condition":
                operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
                literals.append(f"{draw(value(bound))} {operator} {draw(value(bound))}")
            case "equation":
                term = draw(computed(bound))
                literals.append(f"v = {term}")
                bound.append("v")
            case "aggregate":
                literals.append(draw(aggregate_text(bound, below)))
                bound.append("n")
        if kind in ("equation", "aggregate") and literals.count(literals[-1]) > 1:
            literals.pop()
    arguments = [
        draw(computed(bound) if draw(st.integers(0, 5)) == 0 else value(bound)) for _ in range(head.arity)
    ]
    body = draw(st.permutations(literals))
    return f"{head.name}({', '.join(arguments)}) :- {', '.join(body)}."


def value(bound: list[str], *others: str) -> st.SearchStrategy[str]:
    """A bound variable as a rule, sometimes a constant."""
    return st.sampled_from([*bound * 4, *CONSTANTS, *others])


@st.composite
def computed(draw: st.DrawFn, bound: list[str]) -> str:
    operator = draw(st.sampled_from(["+", "*", "-"]))
    return f"({draw(value(bound))} {operator} {draw(value(bound))}) % {MODULUS}"


@st.composite
def aggregate_text(draw: st.DrawFn, bound: list[str], below: list[tuple[str, int]]) -> str:
    """`n = ...` over one or two atoms with outer variables, a local variable k, and a condition on it."""
    function = draw(st.sampled_from(["count", "sum k", "min k", "max k"]))
    atoms = []
    for position in range(draw(st.integers(1, 2))):
        name, arity = draw(st.sampled_from([one for one in below if one[1] > 0]))
        terms = [draw(value(bound, "k", "k", "j", "_")) for _ in range(arity)]
        if position == 0:
            terms[draw(st.integers(0, arity - 1))] = "k"
        atoms.append(f"{name}({', '.join(terms)})")
    if draw(st.booleans()):
        atoms.append(f"k {draw(st.sampled_from(['<', '!=', '>=']))} {draw(value(bound))}")
    return f"n = {function} : {{ {', '.join(atoms)} }}"
