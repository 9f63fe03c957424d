"""Random expressions of every type and the rows that they are evaluated over."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from dbsp.expressions import Expression, call, col, lit
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

LETTERS = "aB1é-"


INTS = st.integers(-4, 4) | st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX, 2**32, -(2**31), 2**53 + 1])
FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.5, 2.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan, 1e18, 2.0**63]
)
TEXTS = st.text(LETTERS, max_size=3) | st.sampled_from(["7", "-12", "9223372036854775808", "1.5", " 1.5"])
ROWS = st.tuples(
    INTS,
    INTS,
    FLOATS,
    TEXTS,
    TEXTS,
    st.booleans(),
    st.none() | INTS.filter(lambda i: i != INT64_MIN),
    st.none() | TEXTS,
    st.none() | FLOATS,
    st.none() | st.booleans(),
)


ARITHMETIC = ["add", "sub", "mul", "floordiv", "mod", "truncdiv", "truncmod", "pow"]
FLOAT_FUNCTIONS = [*ARITHMETIC, "truediv", "eq", "lt", "le", "min_of", "max_of"]


@functools.cache
def of_kind(kind: str, depth: int) -> st.SearchStrategy[Expression]:
    """Expressions of a kind, with at most `depth` calls within each other."""
    leaves: dict[str, st.SearchStrategy[Any]] = {
        "int": st.sampled_from([col("i"), col("j"), col("oi")]) | INTS.map(lit),
        "float": st.sampled_from([col("f"), col("of")]) | FLOATS.map(lit),
        "str": st.sampled_from([col("s"), col("t"), col("os")]) | TEXTS.map(lit),
        "bool": st.sampled_from([col("b"), col("ob")]) | st.booleans().map(lit),
    }
    if depth == 0:
        return leaves[kind]
    one: Callable[[str], st.SearchStrategy[Expression]] = lambda k: of_kind(k, depth - 1)  # noqa: E731
    kinds = st.sampled_from(["int", "float", "str", "bool"])

    def calls(names: str, *operands: str) -> st.SearchStrategy[Expression]:
        return st.builds(call, st.sampled_from(names.split()), *map(one, operands))

    options: dict[str, list[st.SearchStrategy[Expression]]] = {
        "int": [
            calls(
                "add sub mul floordiv mod truncdiv truncmod pow band bor bxor shl shr shr_unsigned",
                "int",
                "int",
            ),
            calls("add sub mul", "int", "int"),
            calls("neg abs bnot", "int"),
            calls("length to_number to_int", "str"),
            calls("to_int", "float"),
            calls("to_int", "bool"),
        ],
        "float": [
            calls("add sub mul truediv floordiv mod truncdiv truncmod pow", "float", "float"),
            calls("add mul truediv floordiv", "int", "float"),
            calls("truediv", "int", "int"),
            calls("neg abs", "float"),
            calls("to_float", "int"),
            calls("to_float", "str"),
        ],
        "str": [
            calls("cat add", "str", "str"),
            calls("upper lower", "str"),
            calls("substr", "str", "int", "int"),
            kinds.flatmap(lambda k: calls("to_string", k)),
        ],
        "bool": [
            kinds.flatmap(lambda k: calls("eq ne lt le gt ge", k, k)),
            calls("eq lt ge", "int", "float"),
            calls("and or", "bool", "bool"),
            calls("not", "bool"),
            calls("contains startswith endswith", "str", "str"),
            kinds.flatmap(lambda k: calls("is_null", k)),
        ],
    }
    anywhere = [
        calls("when", "bool", kind, kind),
        calls("fill_null", kind, kind),
        calls("min_of max_of", kind, kind),
    ]
    return st.one_of(leaves[kind], *options[kind], *anywhere)


EXPRESSIONS = st.sampled_from(["int", "float", "str", "bool"]).flatmap(lambda kind: of_kind(kind, 3))
