"""Random patterns over small random graphs, with cycles, against a definition by recursion."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dbsp.datomic.pull import pull, pull_with_reads
from dbsp.edn.edn_values import Keyword

from .listed_facts import ListedFacts

Fact = tuple[int, str, Any]

ATTRIBUTES: dict[str, dict[str, Any]] = {
    ":name": {"value_type": "string"},
    ":tags": {"value_type": "long", "many": True},
    ":next": {"value_type": "ref"},
    ":links": {"value_type": "ref", "many": True},
    ":part": {"value_type": "ref", "component": True},
    ":parts": {"value_type": "ref", "many": True, "component": True},
}
REFS = [":next", ":links", ":part", ":parts"]
REVERSE = [":_next", ":_links", ":_part", ":_parts"]
IDS = st.integers(1, 5)

ID = Keyword("db/id")


def key(name: str) -> Keyword:
    return Keyword(name[1:])


def single(name: str) -> bool:
    """Whether a result has one value of an attribute, and not a list."""
    forward = name.replace("_", "")
    fields = ATTRIBUTES[forward]
    return not fields.get("many") if name == forward else bool(fields.get("component"))


@st.composite
def graphs(draw: st.DrawFn) -> list[Fact]:
    """Facts about entities 1 to 5; an attribute of cardinality one has one value."""
    values: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(REFS, IDS)
    values |= {":name": st.sampled_from("ab"), ":tags": st.integers(0, 3)}
    one = st.one_of([st.tuples(IDS, st.just(name), value) for name, value in values.items()])
    facts: dict[Any, Fact] = {}
    for entity, name, value in draw(st.lists(one, max_size=14)):
        facts[(entity, name) if single(name) else (entity, name, value)] = (entity, name, value)
    return sorted(facts.values(), key=repr)


def options(names: list[str]) -> st.SearchStrategy[Any]:
    """An attribute, with or without options."""

    def with_options(name: str) -> st.SearchStrategy[Any]:
        parts = [st.just([]), st.just([":default", 7]), st.just([":as", f"{name} renamed"])]
        if not single(name):
            parts.append(st.builds(lambda limit: [":limit", limit], st.sampled_from([1, 2, None])))
        return st.one_of(st.just(name), st.one_of(parts).map(lambda chosen: [name, *chosen]))

    return st.sampled_from(names).flatmap(with_options)


def maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    value = st.one_of(inner, st.sampled_from([1, 2, ...]))
    return st.builds(lambda name, nested: Nested(name, nested), options(REFS + REVERSE), value)


class Nested:
    """A map spec; its key may be a list, which is not a key of a dict."""

    def __init__(self, name: Any, value: Any) -> None:
        self.name, self.value = name, value

    def __repr__(self) -> str:
        return f"{{{self.name}: {self.value}}}"


part = st.one_of(st.sampled_from([":db/id", "*"]), options(list(ATTRIBUTES) + REVERSE))
patterns = st.recursive(
    st.lists(part, min_size=1, max_size=3),
    lambda inner: st.lists(st.one_of(part, maps(inner)), min_size=1, max_size=3),
    max_leaves=6,
)


def written(pattern: Any) -> Any:
    """The pattern as data of Python."""
    if isinstance(pattern, list):
        return [written(each) for each in pattern]
    if isinstance(pattern, Nested):
        name = pattern.name if isinstance(pattern.name, str) else tuple(pattern.name)
        return {name: written(pattern.value)}
    return pattern


# --- the definition ------------------------------------------------------------------------------


def expected(facts: list[Fact], pattern: list[Any], entity: int) -> Any:
    return selected(facts, pattern, entity, (), {})


def selected(facts: list[Fact], pattern: list[Any], entity: int, above: tuple[int, ...], used: Any) -> Any:
    result: dict[Any, Any] = {}
    split = [split_part(each) for each in pattern if each not in (":db/id", "*")]
    if "*" in pattern:
        result[ID] = entity
        named = {name for name, _, _ in split}
        for name in {name for other, name, _ in facts if other == entity} - named:
            value = shown(facts, pattern, entity, name, {}, None, above, used)
            if value is not None:
                result[key(name)] = value
    if ":db/id" in pattern:
        result[ID] = entity
    for position, (name, chosen, nested) in enumerate(split):
        value = shown(facts, pattern, entity, name, chosen, nested, above, used, position)
        if value is None:
            value = chosen.get(":default")
        if value is not None:
            result[chosen.get(":as", key(name))] = value
    return result or None


def split_part(each: Any) -> tuple[str, dict[str, Any], Any]:
    """The name, the options and the nested pattern of a part."""
    nested = each.value if isinstance(each, Nested) else None
    named = each.name if isinstance(each, Nested) else each
    if isinstance(named, str):
        return named, {}, nested
    return named[0], dict(zip(named[1::2], named[2::2], strict=True)), nested


def shown(
    facts: list[Fact],
    pattern: list[Any],
    entity: int,
    name: str,
    chosen: dict[str, Any],
    nested: Any,
    above: tuple[int, ...],
    used: dict[int, int],
    position: int = -1,
) -> Any:
    forward = name.replace("_", "")
    if name == forward:
        values = sorted(value for other, known, value in facts if (other, known) == (entity, name))
    else:
        values = sorted(other for other, known, value in facts if (value, known) == (entity, forward))
    values = values[:1] if single(name) else values[: chosen.get(":limit", 1000)]
    if forward in REFS:
        found = []
        for child in values:
            if isinstance(nested, list):
                found.append(selected(facts, nested, child, (), {}))
            elif nested is not None and child in above:
                found.append({ID: child})
            elif nested is not None:
                passed = used.get(position, 0)
                if nested is ... or passed < nested:
                    deeper = {**used, position: passed + 1}
                    found.append(selected(facts, pattern, child, (*above, child), deeper))
            elif name == forward and ATTRIBUTES[name].get("component"):
                found.append(component(facts, child, (child,)))
            else:
                found.append({ID: child})
        values = [each for each in found if each is not None]
    if not values:
        return None
    return values[0] if single(name) else values


def component(facts: list[Fact], entity: int, above: tuple[int, ...]) -> Any:
    """Everything about a component and its components."""
    result: dict[Any, Any] = {ID: entity}
    for name in {name for other, name, _ in facts if other == entity}:
        values = sorted(value for other, known, value in facts if (other, known) == (entity, name))
        if name in REFS:
            parts = ATTRIBUTES[name].get("component")
            values = [
                component(facts, child, (*above, child)) if parts and child not in above else {ID: child}
                for child in values
            ]
        result[key(name)] = values[0] if single(name) else values
    return result


@given(graphs(), patterns, IDS)
def test_a_pull_is_what_its_definition_says(facts: list[Fact], pattern: list[Any], entity: int) -> None:
    assert pull(ListedFacts(ATTRIBUTES, facts), written(pattern), entity) == expected(facts, pattern, entity)


@given(graphs(), patterns, IDS, graphs())
def test_a_result_depends_on_the_facts_that_were_read_only(
    facts: list[Fact], pattern: list[Any], entity: int, others: list[Fact]
) -> None:
    reads = pull_with_reads(ListedFacts(ATTRIBUTES, facts), written(pattern), entity)

    def unread(fact: Fact) -> bool:
        refers = fact[1] in REFS and fact[2] in reads.referenced
        return fact[0] not in reads.entities and not refers

    changed = [fact for fact in facts if not unread(fact)] + [fact for fact in others if unread(fact)]
    assert pull(ListedFacts(ATTRIBUTES, changed), written(pattern), entity) == reads.value
