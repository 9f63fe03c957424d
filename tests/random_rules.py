"""Random programs of rules that the rewritings `separate` and `factor` are made for."""

from __future__ import annotations

from hypothesis import strategies as st

DECLARATIONS = """
.decl a(x: number, y: number)  .decl b(x: number, y: number)  .decl c(x: number)  .decl d(x: number)
.decl p(x: number)  .decl q(x: number, y: number)  .decl r(x: number)
.input a, b, c, d
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
