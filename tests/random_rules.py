"""Random programs of rules that the rewritings of rules are made for."""

from __future__ import annotations

import re

from hypothesis import strategies as st

DECLARATIONS = """
.decl a(x: number, y: number)  .decl b(x: number, y: number)  .decl c(x: number)  .decl d(x: number)
.decl e(x: number, y: number, z: number)
.decl p(x: number)  .decl q(x: number, y: number)  .decl r(x: number)
.input a, b, c, d, e
.output p, q, r
"""

PARTS = (
    "c(u)",
    "c(u), d(u)",
    "a(u, v), b(v, w)",
    "a(u, v), b(v, w), a(w, u)",
    "c(u), u > 1",
    "c(u), !d(u)",
    "!c(1)",
    "a(u, _), !b(_, u), u != v, d(v)",
    "n = count : { c(_) }, n > 1",
    "1 < count : { a(_, k) }",
    "d(u), u < sum k : { a(u, k) }",
    "p(u), d(u)",
    "q(u, v), c(v), u != v",
)
"""Parts of a body that use no variable of the rest; some of them are recursive."""

RESTS = ("c(x)", "a(x, y)", "a(x, y), !b(y, x)", "p(x), a(x, y)", "q(x, y), b(y, x)", "c(x), x = x")

ALTERNATIVES = ("c(x)", "d(x)", "a(x, _)", "b(_, x), !c(0)", "a(x, z), b(z, x)", "x = 2", "a(x, 1), d(2)")


@st.composite
def separable_programs(draw: st.DrawFn) -> str:
    """Draw rules whose bodies have parts that share no variable with the rest."""
    rules = ["p(x) :- c(x).", "q(x, y) :- a(x, y).", "r(x) :- d(x), !p(x)."]
    for name in draw(st.lists(st.sampled_from("ppqqr"), min_size=2, max_size=4)):
        rest = draw(st.sampled_from(RESTS if name != "r" else RESTS[:3]))
        parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=2))
        body = ", ".join(draw(st.permutations([rest, *_renamed(parts)])))
        second = "y" if "y" in rest else "x"
        rules.append(f"{name}({f'x, {second}' if name == 'q' else 'x'}) :- {body}.")
    return DECLARATIONS + "\n".join(rules)


def _renamed(parts: list[str]) -> list[str]:
    """Give the parts different variables."""
    found = []
    for number, part in enumerate(parts):
        for name in "uvwkn":
            for before, after in (("(", ","), ("(", ")"), (" ", ","), (" ", ")"), (" ", " "), ("", " ")):
                part = f" {part} ".replace(f"{before}{name}{after}", f"{before}{name}{number}{after}").strip()
        found.append(part)
    return found


@st.composite
def factorable_programs(draw: st.DrawFn) -> str:
    """Draw rules with negations behind disjunctions."""
    rules = ["p(x) :- c(x).", "q(x, y) :- a(x, y), !p(y).", "r(x) :- d(x)."]
    for name in draw(st.lists(st.sampled_from("pqr"), min_size=1, max_size=3)):
        alternatives = draw(st.lists(st.sampled_from(ALTERNATIVES), min_size=2, max_size=3))
        negation = draw(st.sampled_from(["!d(x)", "!b(x, _)", "!d(x), !a(0, x)", "!b(x, y)"]))
        beside = draw(st.sampled_from(["", "", ", b(x, y)", ", c(x)", ", a(y, x), y < 2"]))
        if "y" in negation and "y" not in beside:
            beside = ", a(y, _)"
        second = "y" if "y" in beside else "x"
        head = f"q(x, {second})" if name == "q" else f"{name}(x)"
        rules.append(f"{head} :- ({'; '.join(alternatives)}), {negation}{beside}.")
    return DECLARATIONS + "\n".join(rules)


RANGES = (
    "x < u",
    "x < v",
    "u <= x",
    "x >= v",
    "v > x",
    "y < u",
    "u < y",
    "v <= y",
    "x != u",
    "u < v",
    "y = v",
)
"""Conditions between two atoms over x, y and u, v, and other conditions."""


@st.composite
def range_programs(draw: st.DrawFn) -> str:
    """Draw rules whose atoms are connected by comparisons only, also in recursions."""
    rules = ["p(x) :- c(x).", "q(x, y) :- a(x, y).", "r(x) :- d(x), !p(x)."]
    for name in draw(st.lists(st.sampled_from("pqqr"), min_size=2, max_size=4)):
        left = draw(st.sampled_from(["a(x, y)", "b(x, y)", "a(x, y), c(y)"] + ["q(x, y)"] * (name != "r")))
        right = draw(
            st.sampled_from(
                ["b(u, v)", "a(v, u)", "q(u, v)", "b(u, v), d(v)", "b(y, u), a(u, v)", "e(y, u, v)"]
            )
        )
        conditions = draw(st.lists(st.sampled_from(RANGES), min_size=1, max_size=3, unique=True))
        head = draw(st.sampled_from(["x, v", "u, y", "x, y", "u, v"]))
        head = head if name == "q" else head[0]
        body = draw(st.permutations([left, right, *conditions]))
        if draw(st.integers(0, 3)) == 0 and name == "r":
            body = ["p(x), a(x, y)", "n = count : { b(u, v), u < x, v >= y }"]
            head = "n"
        rules.append(f"{name}({head}) :- {', '.join(body)}.")
    return DECLARATIONS + "\n".join(rules)


GROUPED = """
.decl a(x: number, y: number)  .decl b(x: number, y: number)  .decl c(x: number)
.decl p(x: number, y: number)  .decl q(x: number)
.decl r(x: number, n: number)  .decl s(x: number, n: number, m: number)
.input a, b, c
.output r, s
"""


@st.composite
def grouped_programs(draw: st.DrawFn) -> str:
    """Draw aggregates whose groups are, or only seem to be, the values that the rule binds."""
    derived = ["p(x, y) :- a(x, y).", "p(x, y) :- a(x, z), b(z, y).", "p(x, 1) :- a(x, y), c(y)."]
    derived += ["p(1, y) :- b(_, y).", "p(x, y) :- b(y, x).", "p(y, x) :- a(x, y), !c(x)."]
    keys = ["q(x) :- a(x, _).", "q(x) :- p(x, _).", "q(x) :- c(x).", "q(x) :- p(x, 1)."]
    rules = draw(st.lists(st.sampled_from(derived), min_size=1, max_size=2, unique=True))
    rules += draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    outer = ["a(x, _)", "a(x, 1)", "a(_, x)", "a(x, x)", "b(x, _)", "p(x, _)", "p(_, x)", "c(x)", "q(x)"]
    outer += ["a(x, w), c(w)", "p(x, _), c(v), v > x", "a(x, _), b(x, _)", "q(x), p(x, x)"]
    inner = ["a(x, {0})", "p(x, {0})", "p({0}, x)", "a(x, {0}), c({0})", "p(x, {0}), {0} > 1"]
    inner += ["p(x, {0}), !c({0})", "b(x, {0}), a(x, _)", "p({0}, {0}), q(x)", "a(x, 1), c({0})"]
    tests = ["", "", ", n > 0", ", 1 <= n", ", n != 0", ", n > 1", ", n = 2", ", n < 1", ", n >= x"]
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.sampled_from(outer))
        body = draw(st.sampled_from(inner))
        function = draw(st.sampled_from(["count", "sum k", "max k", "count"]))
        aggregate = f"n = {function} : {{ {body.format('k')} }}"
        test = draw(st.sampled_from(tests))
        if draw(st.booleans()):
            rules.append(f"r(x, n) :- {first}, {aggregate}{test}.")
        else:
            again = body if draw(st.booleans()) else draw(st.sampled_from(inner))
            other = draw(st.sampled_from(["count", "sum j", "min j"]))
            rules.append(
                f"s(x, n, m) :- {first}, m = {other} : {{ {again.format('j')} }}, {aggregate}{test}."
            )
    return GROUPED + "\n".join(rules)


LINEAR = """
.decl a(x: number, y: number)  .decl b(x: number, y: number)  .decl c(x: number)  .decl d(x: number)
.decl e(x: number, y: number, z: number)
.decl p(x: number, y: number)  .decl t(x: number, y: number)  .decl o(x: number)
.input a, b, c, d, e
.output o
"""

STEPS = (
    "a(x, y)",
    "b(y, x)",
    "a(x, w), b(w, y)",
    "a(x, y), x != y",
    "b(x, y), !c(y)",
    "a(x, y), !e(x, y, _)",
    "t(x, y)",
    "e(x, y, w), t(w, y)",
    "a(x, y), x < 3, d(_)",
    "c(x), d(y)",
    "a(x, _), y = 1",
)
"""Parts that lead from x to y; `t` is a relation on demand, too."""

LONE_BASES = (
    "a(z, x)",
    "c(x), z = count : { b(x, _) }",
    "c(x), z = x",
    "e(z, w, x), !t(x, w)",
    "a(x, w), z = w * 2",
    "d(z), x = 2",
)
"""Parts that give a z for an x, besides those of STEPS."""

OTHER_RULES = (
    "p(x, z) :- a(x, y), p(y, w), b(w, z).",
    "p(x, z) :- a(x, y), 1 < count : { b(y, k) }, p(y, z).",
    "p(x, z) :- p(x, y), a(y, z).",
    "p(x, z) :- a(x, y), c(z), p(y, z).",
    "p(x, z) :- p(x, y), p(y, z).",
    "p(x, z) :- a(x, y), p(y, z), t(y, _).",
    "p(x, 1) :- c(x), p(x, 1).",
    "p(3, 1).",
)
"""Rules that are not right-linear."""

QUESTIONS = (
    "o(z) :- p(1, z).",
    "o(z) :- p(1, z). o(z) :- p(2, z).",
    "o(z) :- c(x), p(x, z).",
    "o(z) :- c(x), p(x, y), p(y, z).",
    "o(x) :- d(x), !p(x, 0).",
    "o(n) :- d(x), n = count : { p(x, _) }.",
    "o(z) :- p(0, z), t(z, _).",
    "o(1) :- p(0, 1).",
)


@st.composite
def right_linear_programs(draw: st.DrawFn) -> str:
    """Draw a recursion that is right-linear in most cases, and of which few rows are needed."""
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))
    bases = draw(st.sampled_from([steps, steps, [*steps, "b(x, y), d(y)"], []]))
    rules = [f"p(x, z) :- {step}, p(y, z)." for step in steps]
    rules += [f"p(x, y) :- {base}." for base in bases]
    if not bases:
        rules += [f"p(x, z) :- {base}." for base in draw(st.lists(st.sampled_from(LONE_BASES), max_size=2))]
    if draw(st.integers(0, 3)) == 3:
        rules.append(draw(st.sampled_from(OTHER_RULES)))
    rules += draw(st.lists(st.sampled_from(QUESTIONS), min_size=1, max_size=2))
    rules = draw(st.permutations([*rules, "t(x, y) :- b(x, y).", "t(x, y) :- e(x, y, _), d(y)."]))
    text = LINEAR + "\n".join(rules)
    # Swapped, the second column is the demanded one.
    swapped = draw(st.booleans())
    return re.sub(r"\bp\(([^(),]*), ([^(),]*)\)", r"p(\2, \1)", text) if swapped else text


CONVERSES = (
    "p(y, x) :- p(x, y).",
    "p(x, y) :- c(x), p(y, x).",
    "p(x, z) :- p(x, y), a(y, z).",
    "p(x, x) :- c(x).",
)
"""A converse, a rule that is none, one that extends rows, and one that is not recursive."""

TRANSITIVE = (
    "p(x, z) :- p(x, y), p(y, z).",
    "p(x, z) :- p(y, z), p(x, y).",
    "p(x, z) :- p(x, y), p(y, z), x != z.",
    "p(x, z) :- p(x, y), p(z, y).",
)

TRANSITIVE_QUESTIONS = (".output p", "o(z) :- p(1, z).", "o(x) :- p(x, 0).", "o(x) :- d(x), !p(x, 1).")


@st.composite
def transitive_programs(draw: st.DrawFn) -> str:
    """Draw a relation that is a transitive closure in most cases."""
    rules = [draw(st.sampled_from([TRANSITIVE[0]] * 4 + list(TRANSITIVE)))]
    rules += [f"p(x, y) :- {base}." for base in draw(st.lists(st.sampled_from(STEPS), max_size=2))]
    rules += [f"p(x, z) :- {base}." for base in draw(st.lists(st.sampled_from(LONE_BASES), max_size=1))]
    rules += draw(st.lists(st.sampled_from([CONVERSES[0]] * 4 + list(CONVERSES)), max_size=1))
    rules += draw(st.lists(st.sampled_from(TRANSITIVE_QUESTIONS), min_size=1, max_size=2, unique=True))
    rules += draw(st.sampled_from([[], [], [".input p"], ["p(3, 1)."]]))
    rules = draw(st.permutations([*rules, "t(x, y) :- b(x, y)."]))
    return LINEAR + "\n".join(rules)
