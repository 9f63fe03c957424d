"""Random versions of a small Datalog program: the same relations, with rules that come and go.

Rules keep to the groups of `random_datalog`, so every selection of them is stratified.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

from tests.random_datalog import (
    CONSTANTS,
    NAMES,
    Derived,
    kind_text,
    pattern_text,
    relations_of,
    rule_text,
    start_text,
)


@st.composite
def versions(draw: st.DrawFn, number: int, kinds: bool = False, cyclic: bool = False) -> list[str]:
    """Draw the texts of several versions of a program with the inputs a(x, y), b(x, y) and c(x).

    A relation without rules and facts is an input. With `kinds`, relations may be equivalences,
    choices, limited in size, or have subsumptions. With `cyclic`, most bodies have no join tree.
    """
    derived: list[Derived] = []
    for name in NAMES[: draw(st.integers(2, 3))]:
        group = derived[-1].group + draw(st.integers(0, 1)) if derived else 0
        derived.append(Derived(name, draw(st.sampled_from([2, 2, 2, 1])), group))
    pool = [start_text(draw, head) for head in derived]
    write = pattern_text if cyclic else rule_text
    for head in [*derived, *draw(st.lists(st.sampled_from(derived), min_size=1, max_size=3))]:
        pool.append(write(draw, head, derived))
    pool += [
        f"{name}({', '.join(draw(st.sampled_from(CONSTANTS)) for _ in range(arity))})."
        for name, arity in draw(st.lists(st.sampled_from(relations_of(derived)), max_size=3))
    ]
    texts: list[str] = []
    present = [draw(st.integers(0, 3)) > 0 for _ in pool]
    special: dict[str, tuple[str, list[str]]] = {}
    for _ in range(number):
        if kinds and draw(st.booleans()):
            relation = draw(st.sampled_from(derived))
            more: list[str] = []
            special[relation.name] = (kind_text(draw, relation, more), more)
        used = [clause for clause, is_used in zip(pool, present, strict=True) if is_used]
        outputs = draw(st.lists(st.sampled_from(derived), min_size=1, unique_by=lambda one: one.name))
        texts.append(_text(derived, used, special, [relation.name for relation in outputs]))
        for place in draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=2)):
            present[place] = not present[place]
    return texts


def _text(
    derived: Sequence[Derived],
    clauses: Sequence[str],
    special: dict[str, tuple[str, list[str]]],
    outputs: Sequence[str],
) -> str:
    lines = [
        f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))}){special.get(name, ('',))[0]}"
        for name, arity in relations_of(derived)
    ]
    lines += [".input a, b, c", f".output {', '.join(outputs)}", *clauses]
    with_rules = {match[1] for clause in clauses if (match := re.match(r"(\w+)\(.*:-", clause))}
    for name, (_, more) in special.items():
        if name in with_rules:
            lines += more
    return "\n".join([*lines, ""])


LAYERS = {
    "p(x, y)": ["a(x, y)", "b(x, y), x < 2", "b(x, y), x < 3", "a(x, z), b(z, y)", "b(y, x), c(x)"],
    "q(x, y)": ["p(x, y), c(x)", "p(x, z), a(z, y)", "p(y, x), !b(x, y)", "a(x, y), y > 1"],
    "t(x, y)": ["q(x, y)", "t(x, z), t(z, y)", "t(x, z), p(z, y)", "b(x, y), !p(x, y)"],
    "n(x, y)": ["c(x), y = count : { t(x, _) }", "q(x, _), y = sum z : { t(x, z) }", "p(x, y), x != y"],
    "m(x, y)": [
        "c(x), y = max z : { q(x, z) }",
        "a(x, _), y = min z : { n(x, z) }",
        "q(x, _), y = min z : { q(x, z) }",
    ],
    "o(x, y)": [
        "n(x, y), y > 1",
        "m(x, y)",
        "t(x, y), t(y, x)",
        "m(x, y), !q(x, y)",
        "c(x), t(x, z), n(z, y), p(y, _)",
    ],
}
"""By head, the bodies of its rules: each relation reads those before it, so edits have readers."""


@st.composite
def layered_versions(draw: st.DrawFn, number: int) -> list[str]:
    """Draw versions of a program with six relations above each other; each has one rule at least.

    The inputs are those of `versions`.
    """
    used = {
        head: draw(st.sets(st.sampled_from(bodies), min_size=min(2, len(bodies) - 1)))
        for head, bodies in LAYERS.items()
    }
    texts: list[str] = []
    for _ in range(number):
        heads = draw(st.lists(st.sampled_from(list(LAYERS)), min_size=1, unique=True))
        lines = [".decl a(x: number, y: number) .decl b(x: number, y: number) .decl c(x: number)"]
        lines += [f".decl {head.replace(',', ': number,').replace(')', ': number)')}" for head in LAYERS]
        lines += [".input a, b, c", f".output {', '.join(head[0] for head in heads)}"]
        lines += [f"{head} :- {body}." for head in LAYERS for body in LAYERS[head] if body in used[head]]
        texts.append("\n".join([*lines, ""]))
        for head in draw(st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=2)):
            changed = used[head] ^ {draw(st.sampled_from(LAYERS[head]))}
            used[head] = changed or used[head]
    return texts


OPERATORS = {
    "least(x: number, y: number)": ["least(x, y) :- a(x, _), y = min z : { a(x, z) }."],
    "most(x: number, y: number)": ["most(x, y) :- a(x, _), y = max z : { a(x, z) }."],
    "total(x: number, y: number)": ["total(x, y) :- a(x, _), y = sum z : { a(x, z) }."],
    "bound(x: number, y: number<min>)": ["bound(x, y) :- a(x, y).", "bound(y, x) :- b(x, y)."],
    "joined(x: number, y: number)": ["joined(x, z) :- a(x, y), b(y, z)."],
    "absent(x: number, y: number)": ["absent(x, y) :- a(x, y), !b(x, y)."],
    "loop(x: number, y: number)": ["loop(x, x) :- a(x, _)."],
    "class(x: number, y: number) eqrel": ["class(x, y) :- a(x, y)."],
    "first(x: number, y: number) choice-domain x": ["first(x, y) :- b(x, y)."],
    "path(x: number, y: number)": ["path(x, y) :- b(x, y).", "path(x, z) :- path(x, y), path(y, z)."],
}
"""By declaration of a relation, its rules: together they use most operators."""


@st.composite
def versions_over_operators(draw: st.DrawFn, number: int) -> list[str]:
    """Draw versions of an output that reads some of `OPERATORS`, which nothing else reads.

    The inputs are those of `versions`.
    """
    lines = [".decl a(x: number, y: number) .decl b(x: number, y: number) .decl c(x: number)"]
    lines += [".input a, b, c", ".decl p(x: number, y: number)", ".output p"]
    lines += ["p(x, y) :- b(x, y), c(x).", "p(x, x) :- c(x)."]
    for declaration, rules in OPERATORS.items():
        lines += [f".decl {declaration}", *rules]
    readers = [f"p(x, y) :- {declaration.partition('(')[0]}(x, y)." for declaration in OPERATORS]
    used = draw(st.sets(st.sampled_from(readers), min_size=2, max_size=5))
    texts = []
    for _ in range(number):
        texts.append("\n".join([*lines, *(reader for reader in readers if reader in used), ""]))
        used = used ^ draw(st.sets(st.sampled_from(readers), min_size=1, max_size=3))
    return texts
