"""Names of verbs in other libraries and earlier versions, with what to write here.

An attribute that streams do not have, such as `left_join` of ibis, raises AttributeError with the
method to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbsp.data.schema import suggestion

HOW: Mapping[str, str] = {
    "cross": "write 'inner' with on=[]",
    "full_outer": "write 'full'",
    "fullouter": "write 'full'",
    "left_anti": "write 'anti'",
    "left_outer": "write 'left'",
    "left_semi": "write 'semi'",
    "leftanti": "write 'anti'",
    "leftouter": "write 'left'",
    "leftsemi": "write 'semi'",
    "outer": "write 'full'",
    "right_outer": "write 'right'",
    "rightouter": "write 'right'",
}
"""Kinds of joins of other libraries."""

_JOINS = {
    "anti": ("anti_join", "antijoin"),
    "full": ("full_join", "outer_join"),
    "inner": ("inner_join", "merge"),
    "left": ("left_join",),
    "right": ("right_join",),
    "semi": ("semi_join", "semijoin"),
}
_VERBS = {name: f's.join(other, on=..., how="{how}")' for how, names in _JOINS.items() for name in names} | {
    "agg": "s.group_by(...).agg(...)",
    "aggregate": "s.group_by(...).agg(...)",
    "apply": "s.map(function, schema)",
    "assign": "s.with_columns(name=...)",
    "concat": "s + other",
    "count": "s.group_by().agg(n=count())",
    "cross_join": "s.join(other, on=[])",
    "drop_duplicates": "s.distinct()",
    "dropna": "s.filter(~x.is_null())",
    "except_": "(s.distinct() - other.distinct()).distinct()",
    "fill_null": 's.with_columns(x=col("x").fill_null(value))',
    "fillna": 's.with_columns(x=col("x").fill_null(value))',
    "groupby": "s.group_by(...)",
    "head": "s.top_k(n, by=...)",
    "hop": "s.window(column, size, hop)",
    "intersect": 's.distinct().join(other, on=[...], how="semi")',
    "join_asof": "s.asof_join(other, ...)",
    "join_where": "s.join(other, on=..., where=...) or s.range_join(...)",
    "limit": "s.top_k(n, by=...)",
    "merge_asof": "s.asof_join(other, ...)",
    "mutate": "s.with_columns(name=...)",
    "nunique": "s.group_by().agg(n=x.count_distinct())",
    "order_by": "s.top_k(n, by=...) or s.rank(by=...)",
    "project": 's.select("a", "b")',
    "query": 's.filter(col("x") > 1)',
    "reduce": "s.group_by(...).agg(...)",
    "shift": "s.lag(...) or s.lead(...)",
    "sort": "s.top_k(n, by=...) or s.rank(by=...)",
    "sort_values": "s.top_k(n, by=...) or s.rank(by=...)",
    "tumble": "s.window(column, size)",
    "tumbling": "s.window(column, size)",
    "unionAll": "s + other",
    "union_all": "s + other",
    "unique": "s.distinct()",
    "vstack": "s + other",
    "where": "s.filter(...)",
    "with_column": "s.with_columns(name=...)",
    "withColumn": "s.with_columns(name=...)",
    "withColumnRenamed": 's.rename(new="old")',
}


def unknown_verb(name: str, methods: Iterable[str], columns: Iterable[str]) -> AttributeError:
    """Return the error for an attribute of a stream with these methods and columns."""
    if name in columns:
        advice = f'; the column is s["{name}"]'
    else:
        advice = f"; write {_VERBS[name]}" if name in _VERBS else suggestion(name, methods)
    return AttributeError(f"a stream has no '{name}'{advice}")


_AGGREGATES = {
    "avg": "mean",
    "count_distinct": "count_distinct",
    "max": "max",
    "mean": "mean",
    "median": "median",
    "min": "min",
    "nunique": "count_distinct",
    "std": "std",
    "sum": "sum",
    "var": "var",
}
"""Functions of groups in other libraries, with the methods of expressions."""


def unknown_group_verb(name: str) -> AttributeError:
    """Return the error for an attribute of the groups of a stream."""
    if name in _AGGREGATES:
        advice = f"; write .agg(name=col(...).{_AGGREGATES[name]}())"
    elif name in ("count", "len", "size"):
        advice = "; write .agg(n=count())"
    elif name in ("filter", "having"):
        advice = '; write .agg(n=count()).filter(col("n") > 1)'
    elif name in ("head", "top_k", "rank", "limit"):
        advice = "; write s.top_k(n, by=..., partition=...) or s.rank(by=..., partition=...) on the stream"
    else:
        advice = "; write .agg(name=aggregate)"
    return AttributeError(f"the groups of a stream have no '{name}'{advice}")
