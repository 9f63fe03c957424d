"""Expressions over times, durations, decimals, structs and lists, against arithmetic of Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit, Schema, col, lit, when
from dbsp.data.interner import Interner
from dbsp.errors import DbspError, EvaluationError, SchemaError, ValueOutOfRangeError
from dbsp.expressions import Expression, bind, max_of, min_of
from tests.expressions.agreement import agree

ROME = zoneinfo.ZoneInfo("Europe/Rome")
US = dt.timedelta(microseconds=1)
DAY = dt.timedelta(days=1)
MOST = 2**63 - 1
SCHEMA = Schema.of(
    t=dt.datetime,
    u=dt.datetime,
    z="timestamptz(Europe/Rome)",
    y="timestamptz(UTC)",
    a=dt.date,
    b=dt.date,
    c=dt.time,
    e=dt.time,
    d=dt.timedelta,
    f=dt.timedelta,
    n=int,
    p="decimal(18, 2)",
    q="decimal(18, 4)",
    x=float,
    od=dt.timedelta | None,
    op="decimal(18, 2)?",
)

lengths = st.integers(-MOST, MOST) | st.integers(-(10**12), 10**12) | st.integers(-3, 3)
durations = lengths.map(lambda n: n * US)
naive = st.datetimes()
aware = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)).map(
    lambda value: value.replace(tzinfo=dt.UTC).astimezone(ROME)
)
codes = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-(10**6), 10**6) | st.integers(-3, 3)
numbers = st.integers(-(2**63), MOST) | st.integers(-5, 5)
row = st.fixed_dictionaries(
    {
        "t": naive,
        "u": naive,
        "z": aware,
        "y": aware,
        "a": st.dates(),
        "b": st.dates(),
        "c": st.times(),
        "e": st.times(),
        "d": durations,
        "f": durations | st.integers(-3, 3).map(lambda n: n * DAY),
        "n": numbers,
        "p": codes.map(lambda code: Decimal(f"{code}e-2")),
        "q": codes.map(lambda code: Decimal(f"{code}e-4")),
        "x": st.floats(),
        "od": st.none() | durations,
        "op": st.none() | codes.map(lambda code: Decimal(f"{code}e-2")),
    }
)

FAILS = object()
"""The result of a row without a result."""


def in_time(value: Any) -> Any:
    """Return the value if a column holds it."""
    if isinstance(value, dt.timedelta) and abs(value) > MOST * US:
        return FAILS
    if isinstance(value, int) and not -(2**63) <= value <= MOST:
        return FAILS
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        utc = value.astimezone(dt.UTC).replace(tzinfo=None)
        if not dt.datetime(1, 1, 2) <= utc <= dt.datetime(9999, 12, 30, 23, 59, 59, 999999):
            return FAILS
    return value


def exact(value: Fraction, scale: int) -> Any:
    """Return a decimal of a scale; FAILS if it needs more digits."""
    code = value * 10**scale
    assert code.denominator == 1
    return Decimal(f"{code.numerator}e-{scale}") if abs(code) < 10**18 else FAILS


def half_even(value: Fraction, scale: int) -> Any:
    return exact(Fraction(round(value * 10**scale), 10**scale), scale)


def later(value: dt.datetime, by: dt.timedelta) -> Any:
    """Return an instant after elapsed time: Python adds local time to aware datetimes."""
    return (value.astimezone(dt.UTC) + by).astimezone(ROME)


def whole(day: dt.date, by: dt.timedelta) -> Any:
    return FAILS if by % DAY else day + by


def rescaled(value: Any, scale: int) -> Fraction:
    """Return the operand of a sum; an error if it does not fit in the scale of the result."""
    if abs(Fraction(value)) * 10**scale >= 10**18:
        raise OverflowError
    return Fraction(value)


def quotient(a: Any, b: Any, scale: int) -> Fraction:
    return rescaled(a, scale) / rescaled(b, scale)


def remainder(a: Any, b: Any, scale: int) -> Fraction:
    return rescaled(a, scale) - int(quotient(a, b, scale)) * rescaled(b, scale)


def seconds(value: dt.timedelta) -> float:
    return (value // US) / 10**6


C = {name: col(name) for name in SCHEMA.names}
CASES: dict[str, tuple[Expression, Callable[[Any], Any]]] = {
    "t - u": (C["t"] - C["u"], lambda r: r["t"] - r["u"]),
    "z - y": (C["z"] - C["y"], lambda r: r["z"].astimezone(dt.UTC) - r["y"].astimezone(dt.UTC)),
    "t + d": (C["t"] + C["d"], lambda r: r["t"] + r["d"]),
    "f + t": (C["f"] + C["t"], lambda r: r["t"] + r["f"]),
    "t - f": (C["t"] - C["f"], lambda r: r["t"] - r["f"]),
    "z + f": (C["z"] + C["f"], lambda r: later(r["z"], r["f"])),
    "z - d": (C["z"] - C["d"], lambda r: later(r["z"], -r["d"])),
    "z + 1 day": (C["z"] + DAY, lambda r: later(r["z"], DAY)),
    "a - b": (C["a"] - C["b"], lambda r: r["a"] - r["b"]),
    "a + f": (C["a"] + C["f"], lambda r: whole(r["a"], r["f"])),
    "a - f": (C["a"] - C["f"], lambda r: whole(r["a"], -r["f"])),
    "c - e": (C["c"] - C["e"], lambda r: since_midnight(r["c"]) - since_midnight(r["e"])),
    "d + f": (C["d"] + C["f"], lambda r: r["d"] + r["f"]),
    "d - f": (C["d"] - C["f"], lambda r: r["d"] - r["f"]),
    "d * n": (C["d"] * C["n"], lambda r: r["d"] * r["n"]),
    "n * d": (C["n"] * C["d"], lambda r: r["n"] * r["d"]),
    "d / n": (C["d"] / C["n"], lambda r: r["d"] / r["n"]),
    "d // n": (C["d"] // C["n"], lambda r: r["d"] // r["n"]),
    "d / f": (C["d"] / C["f"], lambda r: r["d"] / r["f"]),
    "d // f": (C["d"] // C["f"], lambda r: r["d"] // r["f"]),
    "d % f": (C["d"] % C["f"], lambda r: r["d"] % r["f"]),
    "-d": (-C["d"], lambda r: -r["d"]),
    "abs d": (abs(C["d"]), lambda r: abs(r["d"])),
    "d + od": (C["d"] + C["od"], lambda r: None if r["od"] is None else r["d"] + r["od"]),
    "d < f": (C["d"] < C["f"], lambda r: r["d"] < r["f"]),
    "z == y": (C["z"] == C["y"], lambda r: r["z"] == r["y"]),
    "z <= y": (C["z"] <= C["y"], lambda r: r["z"] <= r["y"]),
    "c > e": (C["c"] > C["e"], lambda r: r["c"] > r["e"]),
    "min": (min_of(C["d"], C["f"]), lambda r: min(r["d"], r["f"])),
    "seconds": (C["d"].dt.total_seconds(), lambda r: seconds(r["d"])),
    "microseconds": (C["d"].dt.total_microseconds(), lambda r: r["d"] // US),
    "of microseconds": (C["n"].microseconds(), lambda r: r["n"] * US),
    "t.year": (C["t"].dt.year(), lambda r: r["t"].year),
    "a.month": (C["a"].dt.month(), lambda r: r["a"].month),
    "t.month": (C["t"].dt.month(), lambda r: r["t"].month),
    "t.day": (C["t"].dt.day(), lambda r: r["t"].day),
    "a.day": (C["a"].dt.day(), lambda r: r["a"].day),
    "a.weekday": (C["a"].dt.weekday(), lambda r: r["a"].weekday()),
    "t.weekday": (C["t"].dt.weekday(), lambda r: r["t"].weekday()),
    "t.hour": (C["t"].dt.hour(), lambda r: r["t"].hour),
    "t.minute": (C["t"].dt.minute(), lambda r: r["t"].minute),
    "c.second": (C["c"].dt.second(), lambda r: r["c"].second),
    "t.second": (C["t"].dt.second(), lambda r: r["t"].second),
    "c.microsecond": (C["c"].dt.microsecond(), lambda r: r["c"].microsecond),
    "t.microsecond": (C["t"].dt.microsecond(), lambda r: r["t"].microsecond),
    "z.hour": (C["z"].dt.hour(), lambda r: r["z"].hour),
    "y.hour": (C["y"].dt.hour(), lambda r: r["y"].astimezone(dt.UTC).hour),
    "y.year": (C["y"].dt.year(), lambda r: r["y"].astimezone(dt.UTC).year),
    "y in Rome": (C["y"].dt.in_zone("Europe/Rome").dt.day(), lambda r: r["y"].day),
    "z date": (C["z"].cast("date"), lambda r: r["z"].date()),
    "y date": (C["y"].cast("date"), lambda r: r["y"].astimezone(dt.UTC).date()),
    "t date": (C["t"].cast("date"), lambda r: r["t"].date()),
    "t time": (C["t"].cast("time"), lambda r: r["t"].time()),
    "z time": (C["z"].cast("time"), lambda r: r["z"].time()),
    "a timestamp": (C["a"].cast("timestamp"), lambda r: dt.datetime.combine(r["a"], dt.time())),
    "z timestamp": (C["z"].cast("timestamp"), lambda r: r["z"].replace(tzinfo=None)),
    "t from Rome": (C["t"].dt.from_zone("Europe/Rome"), lambda r: r["t"].replace(tzinfo=ROME, fold=0)),
    "t from UTC": (C["t"].dt.from_zone("UTC"), lambda r: r["t"].replace(tzinfo=dt.UTC)),
    "p + q": (C["p"] + C["q"], lambda r: exact(rescaled(r["p"], 4) + rescaled(r["q"], 4), 4)),
    "p - n": (C["p"] - C["n"], lambda r: exact(rescaled(r["p"], 2) - rescaled(r["n"], 2), 2)),
    "q * p": (C["q"] * C["p"], lambda r: exact(Fraction(r["q"]) * Fraction(r["p"]), 6)),
    "n * p": (C["n"] * C["p"], lambda r: exact(rescaled(r["n"], 0) * Fraction(r["p"]), 2)),
    "p + 1.5": (C["p"] + Decimal("1.5"), lambda r: exact(Fraction(r["p"]) + Fraction(3, 2), 2)),
    "-p": (-C["p"], lambda r: -r["p"]),
    "abs q": (abs(C["q"]), lambda r: abs(r["q"])),
    "p // q": (C["p"] // C["q"], lambda r: exact(Fraction(int(quotient(r["p"], r["q"], 4))), 0)),
    "n // p": (C["n"] // C["p"], lambda r: exact(Fraction(int(quotient(r["n"], r["p"], 2))), 0)),
    "p % q": (C["p"] % C["q"], lambda r: exact(remainder(r["p"], r["q"], 4), 4)),
    "q % n": (C["q"] % C["n"], lambda r: exact(remainder(r["q"], r["n"], 4), 4)),
    "p / q": (C["p"].divide(C["q"], 3), lambda r: half_even(Fraction(r["p"]) / Fraction(r["q"]), 3)),
    "n / q": (C["n"].divide(C["q"], 0), lambda r: half_even(rescaled(r["n"], 0) / Fraction(r["q"]), 0)),
    "p / n": (C["p"].divide(C["n"], 8), lambda r: half_even(Fraction(r["p"]) / rescaled(r["n"], 0), 8)),
    "p < q": (C["p"].cast(float) < 10.0, lambda r: float(r["p"]) < 10.0),
    "p <= q": (C["p"] <= C["q"], lambda r: r["p"] <= r["q"]),
    "p == q": (C["p"] == C["q"], lambda r: r["p"] == r["q"]),
    "n > q": (C["n"] > C["q"], lambda r: r["n"] > r["q"]),
    "q != 1.5": (C["q"] != Decimal("1.5"), lambda r: r["q"] != Decimal("1.5")),
    "op < n": (C["op"] < C["n"], lambda r: None if r["op"] is None else r["op"] < r["n"]),
    "q round": (C["q"].round(1), lambda r: half_even(Fraction(r["q"]), 1)),
    "p round up": (C["p"].round(5), lambda r: exact(Fraction(r["p"]), 5)),
    "q to 2": (C["q"].cast("decimal(18, 2)"), lambda r: reduced(r["q"])),
    "x to 3": (C["x"].cast("decimal(18, 3)"), lambda r: of_float(r["x"])),
    "n to 3": (C["n"].cast("decimal(18, 3)"), lambda r: exact(Fraction(r["n"]), 3)),
    "q float": (C["q"].cast(float), lambda r: float(r["q"])),
    "q int": (C["q"].cast(int), lambda r: int(r["q"])),
    "q text": (C["q"].cast(str), lambda r: f"{r['q']:f}"),
    "d text": (C["d"].cast(str), lambda r: str(r["d"])),
    "z text": (C["z"].cast(str), lambda r: str(r["z"])),
    "text to": (C["q"].cast(str).cast("decimal(18, 4)"), lambda r: r["q"]),
    "max": (max_of(C["q"], C["q"].round(4)), lambda r: r["q"]),
    "when": (
        when(C["n"] > 0).then(C["op"]).otherwise(0),
        lambda r: r["op"] if r["n"] > 0 else Decimal(0),
    ),
    "fill": (C["op"].fill_null(Decimal("0.5")), lambda r: Decimal("0.5") if r["op"] is None else r["op"]),
    "fill d": (C["od"].fill_null(DAY), lambda r: DAY if r["od"] is None else r["od"]),
}


def since_midnight(value: dt.time) -> dt.timedelta:
    return dt.datetime.combine(dt.date(1, 1, 1), value) - dt.datetime(1, 1, 1)


def reduced(value: Decimal) -> Any:
    return exact(Fraction(value), 2) if (Fraction(value) * 100).denominator == 1 else FAILS


def of_float(value: float) -> Any:
    return FAILS if value != value or abs(value) == float("inf") else half_even(Fraction(value), 3)


def expected(meaning: Callable[[Any], Any], values: dict[str, Any]) -> Any:
    try:
        return in_time(meaning(values))
    except (ArithmeticError, OverflowError, ValueError):
        return FAILS


@given(st.lists(st.sampled_from(list(CASES)), min_size=8, max_size=8), st.lists(row, min_size=1, max_size=7))
def test_results_are_those_of_python(names: list[str], rows: list[dict[str, Any]]) -> None:
    interner = Interner()
    encoded = SCHEMA.encode_rows([tuple(values[name] for name in SCHEMA.names) for values in rows], interner)
    for name in names:
        expression, meaning = CASES[name]
        bound = bind(expression, SCHEMA)
        wanted = [expected(meaning, values) for values in rows]
        result = Schema(("r",), (bound.type,))
        for code_row, want in zip(encoded, wanted, strict=True):
            check(bound, code_row[None], [want], result, interner)
        check(bound, encoded, wanted, result, interner)
        good = [at for at, want in enumerate(wanted) if want is not FAILS]
        if good:
            # More rows than are evaluated one by one.
            many = np.repeat(encoded[good], 9, axis=0)
            check(bound, many, [wanted[at] for at in good for _ in range(9)], result, interner)


def check(bound: Any, rows: Any, wanted: list[Any], result: Schema, interner: Interner) -> None:
    if FAILS in wanted:
        with pytest.raises(DbspError) as caught:
            bound.evaluate(rows, interner)
        assert isinstance(caught.value, EvaluationError | ValueOutOfRangeError)
        return
    found = result.decode_rows(bound.evaluate(rows, interner)[:, None], interner)
    assert [value for (value,) in found] == wanted
    for (value,), want in zip(found, wanted, strict=True):
        assert type(value) is type(want) or isinstance(want, int)
        if isinstance(value, Decimal):
            assert -value.as_tuple().exponent == bound.type.scale  # type: ignore[operator]


def test_all_small_quotients_are_rounded_half_to_even() -> None:
    circuit = Circuit("small")
    source = circuit.input("in", d=dt.timedelta, p="decimal(18, 1)", n=int)
    quotients = {"d": col("d") / col("n"), "p": col("p").divide(col("n"), 0), "r": col("p").round(0)}
    circuit.output("out", source.map(i=col("d"), n=col("n"), **quotients))
    pairs = [(a, b) for a in range(-35, 36) for b in range(-6, 7) if b]
    run = circuit.start()
    result = run.step({"in": [(a * US, Decimal(a).scaleb(-1), b) for a, b in pairs]})["out"]
    assert set(result.rows()) == {
        (
            a * US,
            b,
            round(Fraction(a, b)) * US,
            Decimal(round(Fraction(a, 10 * b))),
            Decimal(round(Fraction(a, 10))),
        )
        for a, b in pairs
    }


def test_quotients_and_remainders_are_those_of_decimals_in_python() -> None:
    circuit = Circuit("decimals")
    source = circuit.input("in", p="decimal(18, 1)", q="decimal(18, 3)", n=int)
    p, q, n = col("p"), col("q"), col("n")
    circuit.output("out", source.select("p", "n", a=p // n, b=p % n, c=q // p, d=n % q))
    pairs = [(Decimal(a).scaleb(-1), b) for a in range(-35, 36) if a for b in range(-6, 7) if b]
    rows = circuit.start().step({"in": [(a, a / 4, b) for a, b in pairs]})["out"].rows()
    assert sorted(rows) == sorted((a, b, a // b, a % b, a / 4 // a, b % (a / 4)) for a, b in pairs)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("p") / col("q"), "write a.divide(b, 2) for two digits after the point"),
        (col("p") / 2, "write a.divide(b, 2)"),
        (col("p") + 0.5, '+ expects two numbers, two strings, or a time and a duration, got col("p")'),
        (col("t") - col("z"), "- expects two numbers, two times, or a time and a duration"),
        (col("t") < col("z"), "< expects two values of one type"),
        (col("t") + col("u"), "+ expects two numbers"),
        (col("c") + col("d"), "+ expects two numbers"),
        (col("d") * 0.5, "* expects two numbers"),
        (col("d") + 5, "+ expects two numbers"),
        (col("c").dt.year(), "year expects a date or a timestamp"),
        (col("a").dt.hour(), "hour expects a time or a timestamp"),
        (col("t").dt.in_zone("UTC"), "in_zone expects a timestamp with a zone"),
        (col("z").dt.in_zone("Mars"), "unknown time zone 'Mars'"),
        (col("z").dt.from_zone("UTC"), "from_zone expects a timestamp without zone"),
        (col("p").round(19), "expected 0 to 18 digits after the point of a number, got 19"),
        (col("p").round(col("n")), "expected 0 to 18 digits after the point of a number, got None"),
        (
            col("p").cast("decimal(18, 18)") * col("q"),
            "the product of decimal(18, 18) and decimal(18, 4) has 22 digits",
        ),
        (
            when(col("n") > 0).then(col("p")).otherwise(0.5),
            "when expects a boolean and two values of one type",
        ),
    ],
)
def test_operations_that_are_refused(expression: Expression, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bind(expression, SCHEMA)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("p") * 10**17, "the result does not fit in decimal(18, 2); round the operands to fewer digits"),
        (col("t") + dt.timedelta(days=3_000_000), "the result is outside of the range of type timestamp"),
        (
            col("a") + dt.timedelta(hours=1),
            "a date changes by whole days only; convert",
        ),
        (col("d") / 0, "division by zero"),
        (col("d") * 2**62, "the result does not fit in 64 bits"),
        (lit("1_0").cast("decimal(18, 2)"), "the string is not a decimal number"),
        (
            col("q").cast("decimal(18, 2)"),
            "the value has more than 2 digits after the point; round it with round(2)",
        ),
    ],
)
def test_errors_of_rows(expression: Expression, message: str) -> None:
    circuit = Circuit("errors")
    source = circuit.input("in", schema=SCHEMA.select(SCHEMA.indices(["t", "a", "d", "p", "q"])))
    circuit.output("out", source.map(v=expression))
    values = (dt.datetime(2024, 1, 1), dt.date(2024, 1, 1), DAY, Decimal(12), Decimal("0.0001"))
    for count in (1, 20):
        with pytest.raises(DbspError) as caught:
            circuit.start().step({"in": {values: count}})
        assert message in str(caught.value)


@pytest.mark.parametrize("zone", ["Europe/Rome", "UTC"])
def test_local_times_that_occur_twice_are_compared_as_instants(zone: str) -> None:
    first, second = (dt.datetime(2024, 10, 27, 2, 30, tzinfo=ROME, fold=fold) for fold in (0, 1))
    schema = Schema.of(z="timestamptz(Europe/Rome)", y=f"timestamptz({zone})")
    rows = [(z, y) for z in (first, second) for y in (first, second)]
    z, y, hour = col("z"), col("y"), dt.timedelta(hours=1)
    agree(z == y, schema, rows, lambda z, y: z.fold == y.fold)
    agree(z != y, schema, rows, lambda z, y: z.fold != y.fold)
    agree(z < y, schema, rows, lambda z, y: z.fold < y.fold)
    agree(z >= y, schema, rows, lambda z, y: z.fold >= y.fold)
    agree(min_of(z, y) - lit(first), schema, rows, lambda z, y: min(z.fold, y.fold) * hour)
    agree(max_of(z, y) - lit(first), schema, rows, lambda z, y: max(z.fold, y.fold) * hour)


def test_the_context_of_python_does_not_matter() -> None:
    with decimal.localcontext() as context:
        context.prec = 2
        bound = bind(col("p") * col("q"), SCHEMA)
        values = dict.fromkeys(SCHEMA.names)
        values |= dict.fromkeys(("n", "x"), 0) | {"p": Decimal("123.45"), "q": Decimal("1.2345")}
        moment = dt.datetime(2024, 1, 1)
        values |= {"t": moment, "u": moment, "a": moment.date(), "b": moment.date(), "d": DAY, "f": DAY}  # type: ignore[dict-item]
        values |= {"z": moment.replace(tzinfo=ROME), "y": moment.replace(tzinfo=dt.UTC)}  # type: ignore[dict-item]
        values |= {"c": moment.time(), "e": moment.time()}  # type: ignore[dict-item]
        interner = Interner()
        encoded = SCHEMA.encode_rows([tuple(values.values())], interner)
        (code,) = bound.evaluate(encoded, interner)
        assert code == 12345 * 12345


# --- structs and lists ----------------------------------------------------------------------------

NESTED = Schema.of(
    s="{a: int, b: str?}",
    o="{a: int, b: str?}?",
    l=list[int],
    w="list[str?]?",
    v="list[decimal(18, 2)]",
    i=int,
    j=int | None,
    k=str | None,
)
nested_row = st.tuples(
    *[st.tuples(st.integers(-3, 3), st.none() | st.text("ab", max_size=1))] * 1,
    st.none() | st.tuples(st.integers(-3, 3), st.none() | st.text("ab", max_size=1)),
    st.lists(st.integers(-3, 3), max_size=3).map(tuple),
    st.none() | st.lists(st.none() | st.text("ab", max_size=1), max_size=3).map(tuple),
    st.lists(st.sampled_from([Decimal("1.50"), Decimal("-2.00")]), max_size=2).map(tuple),
    st.integers(-4, 4),
    st.none() | st.integers(-4, 4),
    st.none() | st.text("ab", max_size=1),
)


def at(elements: Any, position: Any) -> Any:
    if elements is None or position is None or not -len(elements) <= position < len(elements):
        return None
    return elements[position]


NESTED_CASES: dict[str, tuple[Expression, Callable[..., Any]]] = {
    "s.a": (col("s").field("a"), lambda s, o, m, w, v, i, j, k: s[0]),
    "s.b": (col("s").field("b"), lambda s, o, m, w, v, i, j, k: s[1]),
    "o.a": (col("o").field("a") + 1, lambda s, o, m, w, v, i, j, k: None if o is None else o[0] + 1),
    "o.b": (col("o").field("b"), lambda s, o, m, w, v, i, j, k: None if o is None else o[1]),
    "l[i]": (col("l").element(col("i")), lambda s, o, m, w, v, i, j, k: at(m, i)),
    "l[-1]": (col("l").element(-1) * 2, lambda s, o, m, w, v, i, j, k: m[-1] * 2 if m else None),
    "w[j]": (col("w").element(col("j")), lambda s, o, m, w, v, i, j, k: at(w, j)),
    "len l": (col("l").length(), lambda s, o, m, w, v, i, j, k: len(m)),
    "len w": (col("w").length(), lambda s, o, m, w, v, i, j, k: None if w is None else len(w)),
    "i in l": (col("l").contains(col("i")), lambda s, o, m, w, v, i, j, k: i in m),
    "j in l": (col("l").contains(col("j")), lambda s, o, m, w, v, i, j, k: None if j is None else j in m),
    "k in w": (
        col("w").contains(col("k")),
        lambda s, o, m, w, v, i, j, k: None if w is None or k is None else k in w,
    ),
    "1.5 in v": (col("v").contains(Decimal("1.5")), lambda s, o, m, w, v, i, j, k: Decimal("1.5") in v),
    "i in v": (col("v").contains(col("i")), lambda s, o, m, w, v, i, j, k: i in v),
    "s == o": (col("s") == col("o"), lambda s, o, m, w, v, i, j, k: None if o is None else s == o),
    "s != (1, None)": (
        col("s") != lit({"a": 1, "b": None}, {"a": int, "b": str | None}),
        lambda s, o, m, w, v, i, j, k: s != (1, None),
    ),
    "fill o": (col("o").fill_null(col("s")).field("a"), lambda s, o, m, w, v, i, j, k: (o or s)[0]),
    "l == [1]": (col("l") == [1], lambda s, o, m, w, v, i, j, k: m == (1,)),
}


@given(st.sampled_from(list(NESTED_CASES)), st.lists(nested_row, min_size=1, max_size=9))
def test_parts_of_structs_and_lists(name: str, rows: list[Any]) -> None:
    expression, meaning = NESTED_CASES[name]
    bound, interner = bind(expression, NESTED), Interner()
    encoded = NESTED.encode_rows(rows, interner)
    result = Schema(("r",), (bound.type,))
    wanted = [meaning(*values) for values in rows]
    for code_row, want in zip(encoded, wanted, strict=True):
        check(bound, code_row[None], [want], result, interner)
    check(bound, np.repeat(encoded, 5, axis=0), [w for w in wanted for _ in range(5)], result, interner)


def test_an_element_of_a_list_is_equal_as_by_the_operator() -> None:
    early = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ROME)
    late = early.replace(fold=1)
    schema = Schema.of(
        f=list[float],
        z="list[timestamptz(Europe/Rome)]",
        n="list[{x: float}]",
        m="list[list[float?]]",
        v="list[decimal(18, 2)]",
        i=int,
    )
    row = ((1.0, math.nan), (early,), ((math.nan,),), ((None, math.nan),), (Decimal("1.50"),), 10**18)
    agree(col("f").contains(math.nan), schema, [row], lambda *_: True)
    agree(col("f").contains(1), schema, [row], lambda *_: True)
    agree(col("z").contains(early), schema, [row], lambda *_: True)
    agree(col("z").contains(late), schema, [row], lambda *_: False)
    agree(col("n").contains({"x": math.nan}), schema, [row], lambda *_: True)
    agree(col("m").contains(lit([None, math.nan], "list[float?]")), schema, [row], lambda *_: True)
    agree(col("v").contains(col("i")), schema, [row], lambda *_: False)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("s").field("z"), "unknown field 'z' of a struct; the fields are a, b"),
        (col("i").field("a"), "field expects a struct and the name of a field, or"),
        (col("i").element(0), 'element expects a list and a position, got col("i") (int) and 0 (int)'),
        (col("l").element("x"), "element expects a list and a position"),
        (col("l").contains("x"), "contains expects a list and an element"),
        (col("l").contains(Decimal("1.5")), "contains expects"),
        (col("s") < col("o"), "< expects two values of one type"),
        (col("l") < col("l"), "< expects two values of one type"),
        (min_of(col("l"), col("l")), "min_of expects values of one type"),
        (col("l") == col("w"), "== expects two values of one type"),
        (when(col("i") > 0).then(col("l")).otherwise(3), "when expects a boolean and two values of one type"),
    ],
)
def test_refused_parts(expression: Expression, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        bind(expression, NESTED)
    assert message in str(caught.value)
