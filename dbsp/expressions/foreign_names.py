"""Names in other libraries and earlier versions, with what to write here.

An attribute that expressions do not have, such as `is_in` of Polars, raises AttributeError with the
expression to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.data.schema import suggestion

_EXPRESSION = {
    "arg_max": "x.last(by=...)",
    "arg_min": "x.first(by=...)",
    "argmax": "x.last(by=...)",
    "argmin": "x.first(by=...)",
    "average": "x.mean()",
    "avg": "x.mean()",
    "abs": "abs(x)",
    "alias": "a named argument, such as map(total=x)",
    "as_str": "x.cast(str)",
    "astype": "x.cast(int)",
    "case": "when(...).then(...).otherwise(...)",
    "cat": "x.str.concat(...)",
    "ceiling": "x.ceil()",
    "fillna": "x.fill_null(...)",
    "is_in": "x.isin([...])",
    "is_between": "x.between(low, high)",
    "is_not_null": "~x.is_null()",
    "isna": "x.is_null()",
    "isnull": "x.is_null()",
    "has": "x.contains(element)",
    "len": "count() for rows, x.length() for characters",
    "like": "x.str.matches(pattern)",
    "list": "x.element(0), x.length() or x.contains(...)",
    "max_by": "x.last(by=...)",
    "min_by": "x.first(by=...)",
    "n_unique": "x.count_distinct()",
    "nunique": "x.count_distinct()",
    "notin": "~x.isin([...])",
    "notna": "~x.is_null()",
    "notnull": "~x.is_null()",
    "nullif": "when(x == y).then(None).otherwise(x)",
    "over": "s.group_by(...).agg(...) and a join",
    "replace_strict": "when(...).then(...).otherwise(...)",
    "stddev": "x.std()",
    "struct": 'x.field("name")',
    "to_date": 'x.cast("date")',
    "to_decimal": 'x.cast("decimal(18, 2)")',
    "to_float": "x.cast(float)",
    "to_int": "x.cast(int)",
    "to_number": "x.cast(int)",
    "to_string": "x.cast(str)",
    "to_time": 'x.cast("time")',
    "to_timestamp": 'x.cast("timestamp")',
    "variance": "x.var()",
}
_STRINGS = {
    "capitalize": "x.str.title()",
    "cat": "x.str.concat(...)",
    "ends_with": "x.str.endswith(...)",
    "extract_all": "flat_map(...) of the stream",
    "find": "x.str.contains(...), or x.str.extract(pattern, 0) for a pattern",
    "fullmatch": "x.str.matches(pattern)",
    "len": "x.length()",
    "len_bytes": "x.length()",
    "len_chars": "x.length()",
    "length": "x.length()",
    "ljust": "x.str.pad_end(...)",
    "match": "x.str.matches(pattern)",
    "pad": "x.str.pad_start(...) or x.str.pad_end(...)",
    "replace_all": "x.str.replace(...), or x.str.replace_pattern(...) for a pattern",
    "rjust": "x.str.pad_start(...)",
    "slice": "x.str.substr(start, count)",
    "starts_with": "x.str.startswith(...)",
    "strip_chars": "x.str.strip(...)",
    "strip_chars_end": "x.str.rstrip(...)",
    "strip_chars_start": "x.str.lstrip(...)",
    "strptime": 'x.cast("timestamp") for text in the form of ISO 8601',
    "to_date": 'x.cast("date")',
    "to_datetime": 'x.cast("timestamp")',
    "to_integer": "x.cast(int)",
    "to_lowercase": "x.str.lower()",
    "to_titlecase": "x.str.title()",
    "to_uppercase": "x.str.upper()",
    "zfill": 'x.str.pad_start(width, "0")',
}
_TIMES = {
    "convert_time_zone": "x.dt.in_zone(...)",
    "date": 'x.cast("date")',
    "day_of_week": "x.dt.weekday()",
    "day_of_year": "x.dt.ordinal_day()",
    "dayofweek": "x.dt.weekday()",
    "dayofyear": "x.dt.ordinal_day()",
    "floor": "x.dt.truncate(unit)",
    "offset_by": "x + datetime.timedelta(...)",
    "replace_time_zone": "x.dt.from_zone(...)",
    "time": 'x.cast("time")',
    "to_string": "x.dt.strftime(pattern)",
    "tz_convert": "x.dt.in_zone(...)",
    "tz_localize": "x.dt.from_zone(...)",
    "week_of_year": "x.dt.week()",
    "weekofyear": "x.dt.week()",
}
_TABLES = {"": _EXPRESSION, ".str": _STRINGS, ".dt": _TIMES}


def unknown_method(name: str, namespace: str, members: dict[str, Iterable[str]]) -> AttributeError:
    """Return the error for an attribute; `members` are the methods of each namespace."""
    advice = _TABLES[namespace].get(name)
    if advice is None:
        home = next((other for other, names in members.items() if other != namespace and name in names), None)
        advice = None if home is None else f"x{home}.{name}(...)"
    if advice is not None:
        return AttributeError(
            f"an expression has no '{namespace[1:]}{namespace and '.'}{name}'; write {advice}"
        )
    known = [method for method in members[namespace] if not method.startswith("_")]
    hint = suggestion(name, known)
    return AttributeError(f"an expression has no '{namespace[1:]}{namespace and '.'}{name}'{hint}")


FUNCTIONS = {
    "arg_max": "col(...).last(by=...)",
    "arg_min": "col(...).first(by=...)",
    "avg": "col(...).mean()",
    "bit_and": "col(...).bit_and()",
    "bit_or": "col(...).bit_or()",
    "count_distinct": "col(...).count_distinct()",
    "first": "col(...).first(by=...)",
    "last": "col(...).last(by=...)",
    "max_": "col(...).max()",
    "mean": "col(...).mean()",
    "median": "col(...).median()",
    "min_": "col(...).min()",
    "quantile": "col(...).quantile(q)",
    "stddev": "col(...).std()",
    "sum_": "col(...).sum()",
    "variance": "col(...).var()",
}
"""Functions that the package does not have, with what to write."""
