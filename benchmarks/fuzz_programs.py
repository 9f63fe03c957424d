"""Random Datalog programs by a grammar: most of them compile, some contain a random error."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_TYPES = ("number", "unsigned", "float", "symbol", "R", "T", "eq")
_TEXTS = ("a", "b", "ab", "", "1", "-7", "é", "x y")
_COMPARISONS = ("<", "<=", ">", ">=", "=", "!=")
_NUMERIC = ("+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr", "land", "lor")


@dataclass(frozen=True)
class Relation:
    name: str
    types: tuple[str, ...]
    level: int
    """Rules use relations of lower levels, or, without negation, of the same level."""


class ProgramWriter:
    """Writes one program; the same seed writes the same program."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.relations: list[Relation] = []
        self.counter = 0

    def program(self) -> str:
        """Return the text of a program; one in five has a random error."""
        random = self.random
        lines = [
            ".type R = [x: number, y: symbol]",
            ".type T = A {x: number} | B {s: symbol, t: T} | C {}",
            ".type eq = number",
        ]
        for at in range(random.randint(2, 6)):
            types = tuple(random.choice(_TYPES) for _ in range(random.randint(1, 3)))
            relation = Relation(f"r{at}", types, random.randint(0, 2))
            self.relations.append(relation)
            columns = ", ".join(f"c{i}: {type_}" for i, type_ in enumerate(types))
            marks = ""
            if random.random() < 0.1:
                marks = random.choice([" brie", " magic", " no_inline", " btree", " no_magic"])
            lines.append(f".decl {relation.name}({columns}){marks}")
            if relation.level == 0 or random.random() < 0.2:
                lines.append(f".input {relation.name}")
            if random.random() < 0.7:
                lines.append(f".output {relation.name}")
            if random.random() < 0.05:
                lines.append(f".limitsize {relation.name}(n={random.randint(1, 5)})")
        lines.append(f".output {random.choice(self.relations).name}")
        for _ in range(random.randint(0, 5)):
            relation = random.choice(self.relations)
            lines.append(f"{relation.name}({', '.join(map(self.constant, relation.types))}).")
        for _ in range(random.randint(1, 6)):
            lines.append(self.rule(random.choice(self.relations)))
        text = "\n".join(lines) + "\n"
        return mutated(random, text) if random.random() < 0.2 else text

    def constant(self, type_: str) -> str:
        random = self.random
        if type_ in ("number", "eq"):
            return str(random.choice([0, 1, 2, 3, -1, 7, 2**31, 2**63 - 1, -(2**63)]))
        if type_ == "unsigned":
            return f"{random.choice([0, 1, 2, 3, 2**31])}u"
        if type_ == "float":
            return random.choice(["0.0", "1.5", "-2.25", "1000000.0", "0.1"])
        if type_ == "symbol":
            return f'"{random.choice(_TEXTS)}"'
        if type_ == "R":
            return (
                "nil" if random.random() < 0.3 else f"[{self.constant('number')}, {self.constant('symbol')}]"
            )
        if random.random() < 0.6:
            return random.choice(["$C()", f"$A({self.constant('number')})"])
        return f"$B({self.constant('symbol')}, {self.constant('T')})"

    def rule(self, head: Relation) -> str:
        random = self.random
        bound: dict[str, list[str]] = {}
        body: list[str] = []
        below = [one for one in self.relations if one.level < head.level]
        usable = [one for one in self.relations if one.level <= head.level] or [head]
        for _ in range(random.randint(1, 3)):
            body.append(self.atom(random.choice(usable), bound))
        for _ in range(random.randint(0, 2)):
            body.append(self.condition(bound, below))
        recursive = any(literal.startswith(f"{one.name}(") for one in usable for literal in body)
        arguments = [self.term(type_, bound, 0 if recursive else 2) for type_ in head.types]
        plan = ""
        atoms = sum(literal.startswith("r") for literal in body)
        if random.random() < 0.05:
            plan = f" .plan 0:({', '.join(map(str, range(atoms, 0, -1)))})"
        if random.random() < 0.05:
            body = [f"({'; '.join([*body[:1], self.atom(random.choice(usable), bound)])})", *body[1:]]
        return f"{head.name}({', '.join(arguments)}) :- {', '.join(body)}.{plan}"

    def atom(self, relation: Relation, bound: dict[str, list[str]]) -> str:
        random = self.random
        terms = []
        for type_ in relation.types:
            known = bound.get(type_, [])
            choice = random.random()
            if choice < 0.35 and known:
                terms.append(random.choice(known))
            elif choice < 0.45:
                terms.append(self.constant(type_))
            elif choice < 0.55:
                terms.append("_")
            else:
                self.counter += 1
                terms.append(f"v{self.counter}")
                bound.setdefault(type_, []).append(terms[-1])
        return f"{relation.name}({', '.join(terms)})"

    def condition(self, bound: dict[str, list[str]], below: list[Relation]) -> str:
        random = self.random
        choice = random.random() if below else 1.0
        if choice < 0.25:
            relation = random.choice(below)
            terms = [random.choice(["_", self.term(type_, bound, 0)]) for type_ in relation.types]
            return f"!{relation.name}({', '.join(terms)})"
        if choice < 0.45:
            relation = random.choice(below)
            inner: dict[str, list[str]] = {}
            atom = self.atom(relation, inner)
            numbers = [name for type_ in ("number", "eq") for name in inner.get(type_, [])]
            self.counter += 1
            result = f"v{self.counter}"
            bound.setdefault("number", []).append(result)
            if numbers and random.random() < 0.7:
                function = random.choice(["sum", "min", "max"])
                return f"{result} = {function} {random.choice(numbers)} : {{ {atom} }}"
            return f"{result} = count : {{ {atom} }}"
        if choice < 0.55 and bound.get("symbol"):
            function = random.choice(["match", "contains"])
            return (
                f'{function}("{random.choice(["a.*", "b", "[ab]+", ""])}", {random.choice(bound["symbol"])})'
            )
        type_ = random.choice(["number", "unsigned", "float", "symbol", "number"])
        return f"{self.term(type_, bound, 2)} {random.choice(_COMPARISONS)} {self.term(type_, bound, 2)}"

    def term(self, type_: str, bound: dict[str, list[str]], depth: int) -> str:
        random = self.random
        known = bound.get(type_, [])
        if depth and random.random() < 0.4:
            return self.call(type_, bound, depth - 1)
        return random.choice(known) if known and random.random() < 0.8 else self.constant(type_)

    def call(self, type_: str, bound: dict[str, list[str]], depth: int) -> str:
        random = self.random

        def part(of: str) -> str:
            return self.term(of, bound, depth)

        if type_ in ("number", "eq"):
            forms = [
                f"({part(type_)} {random.choice(_NUMERIC)} {part(type_)})",
                f"strlen({part('symbol')})",
                f"to_number({part('symbol')})",
                f"max({part(type_)}, {part(type_)})",
                f"-{part(type_)}" if depth else part(type_),
                f"ord({part('symbol')})",
            ]
        elif type_ == "float":
            forms = [
                f"({part('float')} {random.choice('+-*/')} {part('float')})",
                f"to_float({part('number')})",
            ]
        elif type_ == "unsigned":
            forms = [f"({part('unsigned')} {random.choice(['+', '*', '/', 'band'])} {part('unsigned')})"]
        elif type_ == "symbol":
            forms = [
                f"cat({part('symbol')}, {part('symbol')})",
                f"substr({part('symbol')}, {part('number')}, {part('number')})",
                f"to_string({part('number')})",
            ]
        elif type_ == "R":
            forms = [f"[{part('number')}, {part('symbol')}]"]
        else:
            forms = [f"$A({part('number')})", f"$B({part('symbol')}, {part('T')})"]
        return random.choice(forms)


_PIECES = (
    *(
        "(",
        ")",
        ",",
        ".",
        ":-",
        "!",
        "_",
        "{",
        "}",
        "[",
        "]",
        "$",
        "@",
        "#",
        '"',
        "\\",
        "\n",
        "\0",
        "é",
        "\ud800",
    ),
    *('#include "x"', "#define a a", "#if 1", ".comp C {", ".init", ".decl", "count :", "autoinc()", "$"),
    *(
        "99999999999999999999",
        "0x",
        "1e999",
        "-",
        "as(x, number)",
        "range(1, 3)",
        "nil",
        ".plan 0:(1)",
        "<=",
        "//",
    ),
)


def mutated(random: Random, text: str) -> str:
    """Return the text with one to three random changes."""
    for _ in range(random.randint(1, 3)):
        at, end = sorted((random.randrange(len(text) + 1), random.randrange(len(text) + 1)))
        end = min(end, at + random.choice([0, 1, 3, 30]))
        piece = random.choice(["", random.choice(_PIECES), text[end : end + 20]])
        text = text[:at] + piece + text[end:]
    return text
