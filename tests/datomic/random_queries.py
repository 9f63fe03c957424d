"""Random databases and random queries over them, as EDN data and text."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from dbsp.edn import Keyword, read

SCHEMA = """[
 {:db/ident :n   :db/valueType :db.type/long    :db/cardinality :db.cardinality/one}
 {:db/ident :s   :db/valueType :db.type/string  :db/cardinality :db.cardinality/one}
 {:db/ident :t   :db/valueType :db.type/keyword :db/cardinality :db.cardinality/many}
 {:db/ident :r   :db/valueType :db.type/ref     :db/cardinality :db.cardinality/many}
 {:db/ident :any :db/cardinality :db.cardinality/many}
]"""

VALUES: dict[str, list[str]] = {
    "n": ["0", "1", "2", "3"],
    "s": ['"p"', '"q"'],
    "t": [":x", ":y", ":z"],
    "r": ["1", "2", "3", "4"],
    "any": ["1", "1.0", "true", '"1"', "0", "false", ":x"],
}
"""The values of each attribute, as EDN."""

MANY = ("t", "r", "any")

RULES = """[
 [(reach ?x ?y) [?x :r ?y]]
 [(reach ?x ?y) [?x :r ?z] (reach ?z ?y)]
 [(far ?x ?y) (reach ?x ?y) (not [?x :r ?y])]
 [(near ?x ?y) [?x :r ?y]]
 [(near ?x ?y) (near ?y ?x)]
 [(twin ?x ?y) [?x :n ?v] [?y :n ?v] [(not= ?x ?y)]]
 [(large [?v]) [(> ?v 1)]]
 [(steps ?x ?y ?k) [?x :r ?y] [(ground 1) ?k]]
 [(steps ?x ?y ?k) (steps ?x ?z ?j) [(< ?j 3)] [?z :r ?y] [(inc ?j) ?k]]
 [(odd ?x ?y) [?x :r ?y]]
 [(odd ?x ?y) (even ?x ?z) [?z :r ?y]]
 [(even ?x ?y) (odd ?x ?z) [?z :r ?y]]
 [(tagged ?x ?v) (or [?x :t ?v] [?x :any ?v])]
]"""

TUPLES = ((0, "p"), (1, "q"), (1, "p"), (3, "r"))
"""The source `$c` of a query."""

# --- transactions ------------------------------------------------------------------------------


def transactions(random: Random) -> list[Any]:
    """Return a few transactions whose operations do not contradict each other."""
    return [operations(random) for _ in range(random.randint(4, 7))]


def operations(random: Random) -> tuple[Any, ...]:
    chosen: dict[Any, str] = {}
    forgotten: set[str] = set()
    for _ in range(random.randint(4, 12)):
        entity = random.choice(VALUES["r"])
        if random.random() < 0.03:
            forgotten.add(entity)
            continue
        attribute = random.choice(["n", "r", "any", "s", "t", "r"])
        value = random.choice(VALUES[attribute])
        fact = (entity, attribute, value if attribute in MANY else None)
        operation = random.choice([":db/add", ":db/add", ":db/add", ":db/retract"])
        chosen[fact] = f"[{operation} {entity} :{attribute} {value}]"
    texts = [f"[:db/retractEntity {entity}]" for entity in sorted(forgotten)]
    for (entity, attribute, value), text in chosen.items():
        if entity not in forgotten and not (attribute == "r" and value in forgotten):
            texts.append(text)
    found: tuple[Any, ...] = read(f"[{' '.join(texts)}]")
    return found


# --- queries -----------------------------------------------------------------------------------

ENTITIES, NUMBERS, STRINGS, TAGS, ANY = ("?e", "?f", "?g"), ("?n", "?m"), ("?s",), ("?t",), ("?x", "?y")


class Builder:
    """Draws the parts of one query and knows which variables are bound."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.bound: list[str] = []

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def term(self, names: tuple[str, ...], constants: list[str]) -> str:
        """Return a variable, most of the time, or a constant or `_`."""
        kind = self.pick(*["variable"] * 7, "constant", "blank")
        if kind == "variable":
            return str(self.pick(*names))
        return str(self.pick(*constants)) if kind == "constant" else "_"

    def pattern(self) -> str:
        attribute = self.pick(
            "n", "r", "any", "s", "t", "n", "r", "variable", "short", "tx", "added", "tuples"
        )
        entity = self.term(ENTITIES, VALUES["r"])
        if attribute == "variable":
            return f"[{entity if entity != '_' else '?e'} ?a {self.term(ANY, VALUES['n'])}]"
        if attribute == "short":
            return f"[{entity} :{self.pick(*sorted(VALUES))}]"
        if attribute == "tuples":
            return f"[$c {self.term(NUMBERS, VALUES['n'])} {self.term(STRINGS, VALUES['s'])}]"
        if attribute == "added":
            added = self.pick("?added", "true", "false")
            return f"[{entity} :t {self.term(TAGS, VALUES['t'])} {self.pick('?tx', '_')} {added}]"
        if attribute == "tx":
            return f"[{entity} :n {self.term(NUMBERS, VALUES['n'])} ?tx]"
        names = {"n": NUMBERS, "s": STRINGS, "t": TAGS, "r": ENTITIES, "any": ANY}[attribute]
        return f"[{entity} :{attribute} {self.term(names, VALUES[attribute])}]"

    def simple(self) -> str:
        """Return a pattern or a call of a rule, which bind all their variables."""
        if self.pick(0, 0, 0, 1):
            name = self.pick("reach", "reach", "far", "near", "twin", "odd", "even")
            left = self.term(ENTITIES[:2], VALUES["r"])
            return f"({name} {left} {self.term(ENTITIES[1:], VALUES['r'])})"
        return self.pattern()

    def filter(self) -> str:
        """Return a clause that binds nothing new, of variables that are bound."""
        numbers = [name for name in self.bound if name in NUMBERS]
        entities = [name for name in self.bound if name in ENTITIES]
        kind = self.pick("compare", "function", "not", "not", "not-join", "or", "or-join", "missing", "equal")
        if kind == "compare" and numbers:
            return (
                f"[({self.pick('<', '<=', '>', '>=')} {self.pick(*numbers)} {self.pick('1', '2', *numbers)})]"
            )
        if kind == "function" and numbers:
            return f"[(+ {self.pick(*numbers)} 1) {self.pick('?k', *numbers)}]"
        if kind == "equal" and self.bound:
            return (
                f"[({self.pick('=', 'not=')} {self.pick(*self.bound)} {self.pick('1', ':x', *self.bound)})]"
            )
        if not entities:
            return "[(= 1 1)]"
        entity = self.pick(*entities)
        inner = self.about(entity)
        if kind == "not":
            return f"(not {inner} {self.pick('', self.about(entity))})"
        if kind == "not-join":
            return f"(not-join [{entity}] {inner} {self.pick('', self.simple())})"
        if kind == "or":
            return f"(or {self.closed(entity)} {self.closed(entity)})"
        if kind == "or-join":
            return f"(or-join [{entity}] {inner} (and {self.about(entity)} {self.simple()}))"
        if kind == "missing":
            return f"[(missing? $ {entity} :{self.pick('n', 's')})]"
        return f"[(get-else $ {entity} :n 7) ?d]"

    def about(self, entity: str) -> str:
        """Return a pattern about an entity variable, perhaps with variables of its own."""
        attribute = self.pick(*sorted(VALUES))
        own = {"n": "?n1", "s": "?s1", "t": "?t1", "r": "?g1", "any": "?x1"}[attribute]
        outer = {"n": NUMBERS, "s": STRINGS, "t": TAGS, "r": ENTITIES, "any": ANY}[attribute]
        value = self.pick("_", own, *outer, *VALUES[attribute][:2])
        return str(
            self.pick(f"[{entity} :{attribute} {value}]", f"(reach {entity} {self.pick('?g1', '1', '_')})")
        )

    def closed(self, entity: str) -> str:
        """Return clauses with one variable only."""
        attribute = self.pick(*sorted(VALUES))
        pattern = f"[{entity} :{attribute} {self.pick('_', *VALUES[attribute])}]"
        return str(
            self.pick(
                pattern,
                f"(and {pattern} (not [{entity} :t :x]))",
                f"(reach {entity} {self.pick('1', '_')})",
                f"(and [{entity} :r 1] {pattern})",
            )
        )


def queries(random: Random) -> tuple[list[str], str, str, Any]:
    """Return the clauses of a query, its `:find` and `:with`, its last input and its value.

    The other inputs are `$`, the tuples `$c` and the rules.
    """
    build = Builder(random)
    clauses = [build.simple() for _ in range(random.choice([1, 1, 2, 2, 3]))]
    if random.random() < 0.3:
        clauses.append(
            random.choice(
                [
                    "(or [?e :r ?f] [?f :r ?e])",
                    "(or-join [?e ?n] [?e :n ?n] (and [?e :r ?z] [?z :n ?n]))",
                    f"(steps {build.pick('?e', '1')} ?f ?k)",
                    "(tagged ?e ?x)",
                ]
            )
        )
    given, value = build.pick(
        ("[?i ...]", (5, 6)),
        ("?i", 7),
        ("?n", 1),
        ("[?n ...]", (0, 1, 2)),
        ("[?e ...]", (1, 2, 3)),
        ("[?t ...]", (Keyword("x"), Keyword("y"))),
        ("[[?e ?n]]", ((1, 1), (2, 0), (3, 1), (4, 2))),
    )
    known = (*ENTITIES, *NUMBERS, *STRINGS, *TAGS, *ANY, "?a", "?tx", "?k", "?i", "?added")
    used = words(f"{' '.join(clauses)} {given}")
    build.bound = [name for name in known if name in used]
    clauses += [build.filter() for _ in range(random.choice([0, 0, 1, 1, 2]))]
    found = random.sample(build.bound, random.randint(1, min(3, len(build.bound))))
    if random.random() < 0.3:
        found.append(f"({build.pick('count', 'count-distinct')} {build.pick(*build.bound)})")
    numbers = [name for name in build.bound if name in NUMBERS]
    if numbers and random.random() < 0.3:
        found.append(f"({build.pick('sum', 'min', 'max')} {build.pick(*numbers)})")
    others = [name for name in build.bound if name not in words(" ".join(found))]
    if others and random.random() < 0.3:
        found.append(f":with {build.pick(*others)}")
    random.shuffle(clauses)
    return clauses, " ".join(found), given, value


def text_of(clauses: Sequence[str], elements: str, given: str) -> str:
    return f"[:find {elements} :in $ $c % {given} :where {' '.join(clauses)}]"


def words(text: str) -> set[str]:
    for bracket in "[]()":
        text = text.replace(bracket, " ")
    return set(text.split())
