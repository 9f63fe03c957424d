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
