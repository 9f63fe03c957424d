"""Pull patterns: which attributes of an entity, and of the entities it refers to, a pull returns.

    pattern     [part ...]
    part        :person/name   :person/_friend   :db/id   *   options   map
    options     [:person/name :as "Name" :limit 10 :default "?" :xform f]
    map         {:person/friend pattern}   {:person/friend 3}   {:person/friend ...}

The keys of a map may have options. `(limit :a 10)` and `(default :a 1)` are old spellings of
options. A pattern is EDN text, EDN values, or lists, dicts and strings of Python: there, a string
that starts with ":" is a keyword in the place of an attribute and after `:as`.

A `PullPattern` is the pattern as written. Its `plan` has the attributes of a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dbsp.diagnostics import Diagnostic, ProgramSources, SourceSpan, did_you_mean
from dbsp.edn.edn_values import Keyword
from dbsp.errors import CompileError
from dbsp.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dbsp.datomic.database_schema import Attribute, Schema

DB_ID: Final = Keyword("db/id")
DEFAULT_LIMIT: Final = 1000
"""How many values of an attribute a pull returns, without `:limit`."""


class _Absent:
    """The value of an attribute that an entity does not have."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT: Final = _Absent()


@dataclass(frozen=True, eq=False)
class PatternPlace:
    """Where a part of a pattern is written."""

    sources: ProgramSources
    span: SourceSpan

    def error(self, message: str, hint: str | None = None, code: str = "pull-pattern") -> CompileError:
        """Return the error for the part."""
        return CompileError(self._diagnostics(message, hint, code))

    def _diagnostics(self, message: str, hint: str | None, code: str) -> tuple[Diagnostic, ...]:
        return (replace(self.sources.diagnostic(message, self.span, code), hint=hint),)


@dataclass(frozen=True, eq=False)
class PullPart:
    """An attribute of a pattern, with its options.

    Attributes:
        name: the attribute as written; `:person/_friend` is the reverse of `:person/friend`.
        key: the key of the result.
        limit: the value of `:limit`, None for no limit, or ABSENT.
        default: the value of `:default`, or ABSENT.
        transform: the function of `:xform`.
        nested: the pattern for the entities that the attribute leads to.
        recursive: whether the whole pattern applies to them, too.
        depth: how often it does; None for any number of times.
        place: where it is written.
    """

    name: Keyword
    key: Any
    place: PatternPlace = field(repr=False)
    limit: Any = ABSENT
    default: Any = ABSENT
    transform: Callable[[Any], Any] | None = None
    nested: PullPattern | None = None
    recursive: bool = False
    depth: int | None = None

    @property
    def reverse(self) -> bool:
        """Whether the references to the entity are meant."""
        return self.name.name.startswith("_") and len(self.name.name) > 1

    @cached_property
    def ident(self) -> Keyword:
        """The name of the attribute without the underscore of a reverse name."""
        if not self.reverse:
            return self.name
        namespace = f"{self.name.namespace}/" if self.name.namespace else ""
        return Keyword(namespace + self.name.name[1:])


@dataclass(frozen=True, eq=False)
class Selection:
    """An attribute that a plan reads; see `PullPart` for the other fields.

    Attributes:
        attribute: the attribute; None if an open database does not have it.
        many: whether the result is a list.
        limit: the largest number of values, or None.
        expands: whether the values are components, of which the result shows everything.
    """

    name: Keyword
    key: Any
    attribute: Attribute | None = None
    reverse: bool = False
    many: bool = False
    limit: int | None = DEFAULT_LIMIT
    default: Any = ABSENT
    transform: Callable[[Any], Any] | None = None
    nested: PullPlan | None = None
    recursive: bool = False
    depth: int | None = None
    expands: bool = False


def plain_selection(attribute: Attribute) -> Selection:
    """Return the selection that `*` means for an attribute."""
    return Selection(
        attribute.ident, attribute.ident, attribute, many=attribute.many, expands=attribute.component
    )


@dataclass(frozen=True, eq=False)
class PullPlan:
    """A pattern with the attributes of a schema.

    Attributes:
        ids: the places of `:db/id`.
        selections: the attributes, in the order of the pattern.
        wildcard: whether the other attributes are selected, too.
        named: the ids of the attributes in `selections`, which `*` leaves out.
    """

    ids: tuple[Selection, ...]
    selections: tuple[Selection, ...]
    wildcard: bool
    named: frozenset[int]


EVERYTHING: Final = PullPlan((Selection(DB_ID, DB_ID),), (), True, frozenset())
"""The plan of the pattern `[*]`, also for components."""


@dataclass(frozen=True, eq=False)
class PullPattern:
    """A pattern as written. `parse_pattern` creates it; a pull accepts it instead of its text."""

    parts: tuple[PullPart, ...]
    wildcard: bool
    _plans: list[tuple[Schema, PullPlan]] = field(default_factory=list, repr=False)

    def plan(self, schema: Schema) -> PullPlan:
        """Return the plan for a schema; that of the latest schema is kept.

        Raises CompileError if an attribute does not fit.
        """
        if not self._plans or self._plans[0][0] is not schema:
            self._plans[:] = [(schema, self._planned(schema))]
        return self._plans[0][1]

    def _planned(self, schema: Schema) -> PullPlan:
        ids = tuple(_id_selection(part) for part in self.parts if part.name is DB_ID)
        selections = tuple(_selection(part, schema) for part in self.parts if part.name is not DB_ID)
        named = {one.attribute.id for one in selections if one.attribute is not None and not one.reverse}
        if self.wildcard and not ids:
            ids = EVERYTHING.ids
        return PullPlan(ids, selections, self.wildcard, frozenset(named))


def _id_selection(part: PullPart) -> Selection:
    if part.nested or part.recursive or part.limit is not ABSENT or part.default is not ABSENT:
        raise part.place.error(":db/id is a number; it accepts the options :as and :xform only")
    return Selection(DB_ID, part.key, transform=part.transform)


def _selection(part: PullPart, schema: Schema) -> Selection:
    """Return a part with its attribute. Raises CompileError if the part does not fit it."""
    attribute = schema.by_ident.get(part.ident)
    if attribute is None and not schema.open:
        hint = did_you_mean(str(part.ident), map(str, schema.by_ident))
        raise part.place.error(
            f"unknown attribute {part.ident}",
            hint=hint.replace("'", "") if hint else "define it by a transaction with its :db/ident",
            code="unknown-attribute",
        )
    if attribute is not None and not attribute.is_ref:
        kind = f"values of type {attribute.value_type}" if attribute.value_type else "untyped values"
        if part.reverse:
            raise part.place.error(
                f"attribute {attribute} has {kind}, so nothing refers to an entity by it",
                hint=f"a reverse name needs an attribute of type ref; write {attribute}",
            )
        if part.nested or part.recursive:
            raise part.place.error(
                f"attribute {attribute} has {kind}, so no pattern applies to them",
                hint=f"only an attribute of type ref leads to entities; write {attribute} alone",
            )
    many = attribute is not None and (not attribute.component if part.reverse else attribute.many)
    if attribute is not None and part.limit is not ABSENT and not many:
        raise part.place.error(
            f"{part.name} has at most one value, so it accepts no :limit", hint="omit the :limit"
        )
    return Selection(
        part.name,
        part.key,
        attribute,
        part.reverse,
        many,
        DEFAULT_LIMIT if part.limit is ABSENT else part.limit,
        part.default,
        part.transform,
        None if part.nested is None else part.nested.plan(schema),
        part.recursive,
        part.depth,
        expands=attribute is not None and attribute.component and not part.reverse,
    )
