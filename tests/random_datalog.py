"""Random small Datalog programs that are legal by construction: safe, stratified, with few values.

Relations have columns of numbers. Derived relations are in ordered groups: a rule uses relations of
its own group and of lower groups, and negates and aggregates over lower groups only.
All arithmetic is modulo a small number, so every program has a finite result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

INPUTS = {"a": 2, "b": 2, "c": 1}
NAMES = ("p", "q", "r")
VARIABLES = ("x", "y", "z", "w")
CONSTANTS = ("0", "1", "2")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MODULUS = 4
ONE_IN_FIVE = st.integers(0, 4).map(lambda number: number == 0)


@dataclass(frozen=True)
class Derived:
    name: str
    arity: int
    group: int


@st.composite
def programs(
    draw: st.DrawFn,
    cyclic: bool = False,
    hidden: bool = False,
    kinds: bool = False,
    records: bool = False,
    loops: bool = False,
) -> str:
    """Draw the text of a program with the inputs a(x, y), b(x, y), c(x) and 2 or 3 outputs.

    With `cyclic`, most rules have a cyclic body, which has no join tree. With `hidden`, only one
    relation, in a group above the others, is an output, and there are no facts. With `kinds`,
    derived relations are equivalences, choices, limited in size, or have subsumptions. With
    `records`, records or branches hold the values of derived relations. With `loops`, rules may
    negate all relations, and aggregate over inputs only; some relations are equivalences.
    """
    derived: list[Derived] = []
    for name in NAMES[: draw(st.integers(2, 3))]:
        group = derived[-1].group + draw(st.integers(0, 1)) if derived else 0
        derived.append(Derived(name, draw(st.sampled_from([2, 2, 2, 1, 1, 0])), group))
    # Each relation has a rule that reads an input, so that recursive rules have rows to work on.
    rules = [start_text(draw, head) for head in derived]
    write = pattern_text if cyclic else rule_text
    rules += [write(draw, head, derived, loops) for head in derived]
    for head in draw(st.lists(st.sampled_from(derived), max_size=2)):
        rules.append(rule_text(draw, head, derived, loops))
    facts = [
        f"{name}({', '.join(draw(st.sampled_from(CONSTANTS)) for _ in range(arity))})."
        for name, arity in draw(st.lists(st.sampled_from(relations_of(derived)), max_size=0 if hidden else 2))
    ]
    if hidden:
        derived.append(Derived("o", draw(st.sampled_from([2, 1])), derived[-1].group + 1))
        rules += [reading_text(draw, derived[-1], derived[:-1]) for _ in range(draw(st.integers(1, 2)))]
    qualifiers = {relation.name: kind_text(draw, relation, rules) for relation in derived} if kinds else {}
    if loops:
        qualifiers = {
            relation.name: " eqrel" for relation in derived if relation.arity == 2 and draw(ONE_IN_FIVE)
        }
    declarations = [
        f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))}){qualifiers.get(name, '')}"
        for name, arity in relations_of(derived)
    ]
    outputs = f".output {', '.join(relation.name for relation in derived[-1 if hidden else 0 :])}"
    text = "\n".join([*declarations, ".input a, b, c", outputs, *facts, *rules, ""])
    return (
        within_records(text, [relation.name for relation in derived], *draw(st.sampled_from(BOXES)))
        if records
        else text
    )


BOXES = (
    (".type Box = [n: number]", "[{}]"),
    (".type Box = [n: number, rest: Box]", "[{}, nil]"),
    (".type Box = [n: number, rest: Box]", "[0, [{}, nil]]"),
    (".type Box = None {} | Some { n: number } | Both { x: Box, y: Box }", "$Some({})"),
    (".type Box = None {} | Some { n: number } | Both { x: Box, y: Box }", "$Both($None, $Some({}))"),
)
"""Record types, and templates of their values around a number."""


def within_records(text: str, names: Sequence[str], declaration: str, box: str) -> str:
    """Return the program with each column value of these relations in a record."""

    def boxed(found: re.Match[str]) -> str:
        name, inside = found[1], found[2]
        terms = [term if term == "_" else box.format(term) for term in inside.split(", ")] if inside else []
        return f"{name}({', '.join(terms)})"

    atom = re.compile(rf"\b({'|'.join(names)})\(((?:[^()]|\([^()]*\))*)\)")
    lines = [declaration]
    for line in text.splitlines():
        if not line.startswith("."):
            line = atom.sub(boxed, line)
        elif re.match(rf"\.decl ({'|'.join(names)})\(", line):
            line = line.replace(": number", ": Box")
        lines.append(line)
    return "\n".join([*lines, ""])


def kind_text(draw: st.DrawFn, relation: Derived, rules: list[str]) -> str:
    """Draw a property of the relation: return the end of its declaration, or add rules."""
    name = relation.name
    ways = ["", "limit"]
    if relation.arity == 1:
        ways += ["choice-domain c0", "x <= y"]
    elif relation.arity == 2:
        ways += ["eqrel", "eqrel", "choice-domain c0", "choice-domain c1, c0", "choice-domain (c1, c0)"]
        ways += ["less", "less both", "tied", "by b"]
    match draw(st.sampled_from(ways)):
        case "limit":
            rules.append(f".limitsize {name}(n={draw(st.integers(1, 4))})")
        case "x <= y":
            rules.append(f"{name}(x) <= {name}(y) :- x <= y.")
        case "less":
            rules.append(f"{name}(x, a) <= {name}(x, b) :- {draw(st.sampled_from(['b <= a', 'a < b']))}.")
        case "less both":
            rules.append(f"{name}(x, a) <= {name}(y, b) :- y <= x, a <= b.")
            if draw(st.booleans()):
                rules.append(f"{name}(x, 1) <= {name}(x, b) :- b = 2.")
        case "tied":
            rules.append(f"{name}(_, a) <= {name}(_, b) :- b <= a.")
        case "by b":
            rules.append(f"{name}(x, y) <= {name}(z, w) :- b(x, z), !c(w), y = y.")
        case way:
            return f" {way}"
    return ""


def relations_of(derived: Sequence[Derived]) -> list[tuple[str, int]]:
    return [*INPUTS.items(), *((relation.name, relation.arity) for relation in derived)]


def start_text(draw: st.DrawFn, head: Derived) -> str:
    name, arity = draw(st.sampled_from([item for item in INPUTS.items() if item[1] >= head.arity]))
    body = draw(st.permutations(VARIABLES[:arity]))
    return f"{head.name}({', '.join(VARIABLES[: head.arity])}) :- {name}({', '.join(body)})."


def rule_text(draw: st.DrawFn, head: Derived, derived: Sequence[Derived], loops: bool = False) -> str:
    """Draw a rule that uses a relation of its own group."""
    usable = relations_of([relation for relation in derived if relation.group <= head.group])
    own = relations_of([relation for relation in derived if relation.group == head.group])[len(INPUTS) :]
    atoms = [draw(st.sampled_from(own)), *draw(st.lists(st.sampled_from([*usable, *own]), max_size=2))]
    arguments = [
        [draw(st.sampled_from([*VARIABLES * 4, "_", "?", *CONSTANTS])) for _ in range(arity)]
        for _, arity in atoms
    ]
    return finished(draw, head, derived, atoms, arguments, loops)


def reading_text(draw: st.DrawFn, head: Derived, derived: Sequence[Derived]) -> str:
    """Draw a rule over lower relations, with many constants and equal variables."""
    known = relations_of(derived)
    atoms = [draw(st.sampled_from(known[len(INPUTS) :])), *draw(st.lists(st.sampled_from(known), max_size=2))]
    arguments = [
        [draw(st.sampled_from([*VARIABLES * 2, "_", *CONSTANTS * 2])) for _ in range(arity)]
        for _, arity in atoms
    ]
    return finished(draw, head, [*derived, head], atoms, arguments)


PATTERNS = (
    ("xy", "yz", "xz"),
    ("xy", "yz", "zx"),
    ("xy", "yz", "zw", "wx"),
    ("xy", "yz", "xz", "yw", "zw"),
    ("xy", "yz", "xz", "zw"),
    ("xy", "yz", "xz", "xw", "yw"),
    ("xy", "yx", "yz"),
    ("xy", "xy"),
)
"""Variables of the atoms of a body: triangles, 4-cycles, diamonds, some with more atoms."""


def pattern_text(draw: st.DrawFn, head: Derived, derived: Sequence[Derived], loops: bool = False) -> str:
    """Draw a rule whose body is one of PATTERNS, with a few arguments changed."""
    usable = relations_of([relation for relation in derived if relation.group <= head.group])
    atoms = []
    arguments = []
    for names in draw(st.sampled_from(PATTERNS)):
        name, arity = draw(st.sampled_from([relation for relation in usable if relation[1] > 1]))
        terms = list(names[:arity])
        if draw(st.integers(0, 4)) == 0:
            changed = draw(st.integers(0, arity - 1))
            terms[changed] = draw(st.sampled_from([*VARIABLES, *CONSTANTS, "_", "?"]))
        atoms.append((name, arity))
        arguments.append(terms)
    if draw(st.booleans()):
        atoms.append(("c", 1))
        arguments.append([draw(st.sampled_from(VARIABLES))])
    return finished(draw, head, derived, atoms, arguments, loops)


def finished(
    draw: st.DrawFn,
    head: Derived,
    derived: Sequence[Derived],
    atoms: Sequence[tuple[str, int]],
    arguments: Sequence[Sequence[str]],
    loops: bool = False,
) -> str:
    """Draw a rule with these atoms and other literals; a term replaces the argument "?"."""
    bound = sorted({term for terms in arguments for term in terms if term in VARIABLES})
    below = relations_of([] if loops else [relation for relation in derived if relation.group < head.group])
    parts = Parts(draw, bound, below, relations_of(derived)[1:] if loops else below)
    literals = [
        f"{name}({', '.join(parts.computed() if term == '?' else term for term in terms)})"
        for (name, _), terms in zip(atoms, arguments, strict=True)
    ]
    kinds = ["negation", "condition", "equation", "range", "aggregate"]
    for kind in draw(st.lists(st.sampled_from([*["negation"] * 8 * loops, *kinds]), max_size=3)):
        match kind:
            case "negation":
                literals.append(parts.negation("_"))
            case "condition":
                left = parts.aggregate() if draw(st.integers(0, 3)) == 0 else parts.value()
                literals.append(f"{left} {draw(st.sampled_from(COMPARISONS))} {parts.value()}")
            case "equation" if "v" not in bound:
                literals.append(f"v = {parts.computed()}")
                bound.append("v")
            case "range":
                new = draw(st.sampled_from(["w", *bound, *CONSTANTS]))
                step = draw(st.sampled_from(["", "", f", {parts.value()}"]))
                literals.append(f"{new} = range({parts.value()}, {parts.value()}{step})")
                bound.append(new)
            case "aggregate" if "n" not in bound:
                body = parts.aggregate_body()
                literals.append(f"n = {parts.function()} : {body}")
                bound.append("n")
                if draw(st.booleans()):
                    # A second aggregate over the same rows.
                    literals.append(f"m = {parts.function()} : {body.replace('j0', 'l')}")
                    bound.append("m")
    head_terms = [
        parts.computed() if draw(st.integers(0, 5)) == 0 else parts.value() for _ in range(head.arity)
    ]
    return f"{head.name}({', '.join(head_terms)}) :- {', '.join(draw(st.permutations(literals)))}."


@dataclass(frozen=True)
class Parts:
    """Parts of a rule over its `bound` variables.

    `below` may be aggregated over, and negated in aggregates; `negated` may be negated elsewhere.
    """

    draw: st.DrawFn
    bound: list[str]
    below: list[tuple[str, int]]
    negated: list[tuple[str, int]]

    def value(self, *others: str) -> str:
        """Draw a term: usually a bound variable, sometimes a constant."""
        return self.draw(st.sampled_from([*self.bound * 4, *CONSTANTS, *others]))

    def computed(self) -> str:
        operator = self.draw(st.sampled_from(["+", "*", "-", "band", "bxor"]))
        return f"({self.value()} {operator} {self.value()}) % {MODULUS}"

    def negation(self, *others: str) -> str:
        name, arity = self.draw(st.sampled_from(self.negated))
        terms = [
            self.computed() if self.draw(st.integers(0, 9)) == 0 else self.value(*others)
            for _ in range(arity)
        ]
        return f"!{name}({', '.join(terms)})"

    def aggregate(self, depth: int = 0) -> str:
        return f"{self.function(depth)} : {self.aggregate_body(depth)}"

    def function(self, depth: int = 0) -> str:
        name = self.draw(st.sampled_from(["count", "sum", "min", "max"]))
        return name if name == "count" else f"{name} k{depth}"

    def aggregate_body(self, depth: int = 0) -> str:
        """Draw the body of an aggregate with the local variable k0 (k1 in a nested aggregate)."""
        own = f"k{depth}"
        inside = Parts(self.draw, [*self.bound, own, own], self.below, self.below)
        literals = []
        for position in range(self.draw(st.integers(1, 2))):
            name, arity = self.draw(st.sampled_from([relation for relation in self.below if relation[1] > 0]))
            terms = [inside.value(f"j{depth}", "_") for _ in range(arity)]
            if position == 0:
                terms[self.draw(st.integers(0, arity - 1))] = own
            literals.append(f"{name}({', '.join(terms)})")
        match self.draw(st.integers(0, 5)):
            case 0 | 1:
                literals.append(f"{own} {self.draw(st.sampled_from(COMPARISONS))} {self.value()}")
            case 2:
                literals.append(inside.negation("_"))
            case 3 if depth == 0:
                other = inside.aggregate(1)
                literals.append(f"{own} {self.draw(st.sampled_from(COMPARISONS))} {other}")
        return f"{{ {', '.join(literals)} }}"
