"""Reads pull patterns: EDN text, EDN values, or lists, dicts and strings of Python.

`dbsp.datomic.pull_pattern` has the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import EllipsisType
from typing import Any, Final

from dbsp.compiler.datomic.meaning.query_functions import find_function, known_functions
from dbsp.compiler.datomic.text.query_forms import FormKind, QueryForm, form_of
from dbsp.datomic.pull_pattern import PatternPlace, PullPart, PullPattern
from dbsp.diagnostics import ProgramSources, did_you_mean
from dbsp.edn.edn_values import Keyword

OPTIONS: Final = {"as": "key", "limit": "limit", "default": "default", "xform": "transform"}
"""The options of an attribute, and the fields of a part that they set."""

FILE: Final = "pattern"
"""The name of the file in messages about the text of a pattern."""

Functions = Mapping[str, Callable[[Any], Any]]


def parse_pattern(pattern: Any, *, functions: Functions | None = None, file: str = FILE) -> PullPattern:
    """Return the pattern that EDN text, EDN values or data of Python describe.

    Parameters:
        pattern: the text or the values; a `PullPattern` is returned as it is.
        functions: the functions that a symbol after `:xform` may name, besides those of queries.
        file: the name of the text's file in messages.

    Raises:
        CompileError: it is not a pattern; the message has the place in the text.
        EdnError: the text is not EDN.

    Examples:
        >>> [part.name for part in parse_pattern("[:person/name {:person/friend ...}]").parts]
        [:person/name, :person/friend]
    """
    if isinstance(pattern, PullPattern):
        return pattern
    if isinstance(pattern, str) and not functions:
        return _parsed_text(pattern, file)
    form, sources = form_of(pattern, file, "pattern")
    return pattern_of(form, sources, functions)


def pattern_of(form: QueryForm, sources: ProgramSources, functions: Functions | None = None) -> PullPattern:
    """Return the pattern of a form, which may be a part of a query. Raises CompileError."""
    return _Parser(sources, functions or {}).pattern(form)


@lru_cache(maxsize=256)
def _parsed_text(text: str, file: str) -> PullPattern:
    return pattern_of(*form_of(text, file, "pattern"))


class _Parser:
    """Turns forms into patterns."""

    def __init__(self, sources: ProgramSources, functions: Functions) -> None:
        self.sources = sources
        self.functions = functions

    def pattern(self, form: QueryForm) -> PullPattern:
        """Return the pattern of a vector of parts."""
        if not form.is_sequence:
            raise self.place(form).error(
                f"expected a pattern, got {form.text}", hint="a pattern is a vector, such as [:person/name *]"
            )
        if not form.items:
            raise self.place(form).error(
                "expected a part of a pattern, got an empty vector", hint="write [*]"
            )
        parts: list[PullPart] = []
        wildcard = False
        for item in form.items:
            if self.is_wildcard(item):
                wildcard = True
            elif item.kind is FormKind.MAP:
                parts += self.map_parts(item)
            else:
                parts.append(self.attribute(item))
        return PullPattern(tuple(parts), wildcard)

    def is_wildcard(self, form: QueryForm) -> bool:
        """Whether a part is `*`; "*" is the same."""
        return form.symbol == "*" or form.value == "*"

    def map_parts(self, form: QueryForm) -> Iterator[PullPart]:
        """Return one part per entry of a map."""
        if not form.items:
            raise self.place(form).error(
                "expected an attribute and a pattern, got an empty map", hint="write {:person/friend [*]}"
            )
        for key, value in zip(form.items[::2], form.items[1::2], strict=True):
            place, fields = self.attribute_fields(key)
            if value.is_sequence:
                fields["nested"] = self.pattern(value)
            else:
                fields.update(recursive=True, depth=self.depth(value))
            yield PullPart(place=place, **fields)

    def depth(self, form: QueryForm) -> int | None:
        """Return the depth of a recursion, None for `...`."""
        if form.symbol == "..." or isinstance(form.value, EllipsisType) or form.value == "...":
            return None
        if isinstance(form.value, int) and not isinstance(form.value, bool) and form.value > 0:
            return form.value
        raise self.place(form).error(
            f"expected a pattern, a positive number or ... as the value of a map, got {form.text}",
            hint="{:person/friend [:person/name]} selects the names of friends, {:person/friend 2} "
            "applies the whole pattern to friends and their friends",
        )

    def attribute(self, form: QueryForm) -> PullPart:
        """Return the part of an attribute, with or without options."""
        place, fields = self.attribute_fields(form)
        return PullPart(place=place, **fields)

    def attribute_fields(self, form: QueryForm) -> tuple[PatternPlace, dict[str, Any]]:
        """Return the place and the fields of an attribute, with or without options."""
        name = form.keyword
        if name is not None:
            return self.place(form), {"name": name, "key": name}
        if not form.is_sequence or not form.items:
            raise self.not_an_attribute(form)
        if _old_name(form.items[0]) is not None:
            return self.place(form), self.old_options(form)
        name = form.items[0].keyword
        if name is None:
            raise self.not_an_attribute(form.items[0])
        return self.place(form.items[0]), {"name": name, "key": name} | self.options(form)

    def not_an_attribute(self, form: QueryForm) -> Exception:
        """Return the error for a form in the place of an attribute."""
        hint = "an attribute is a keyword, such as :person/name"
        if isinstance(form.value, str) and form.value:
            hint += f"; write :{form.value}"
        return self.place(form).error(f"expected an attribute, got {form.text}", hint=hint)

    def options(self, form: QueryForm) -> dict[str, Any]:
        """Return the fields that the options after an attribute set."""
        fields: dict[str, Any] = {}
        names, values = form.items[1::2], form.items[2::2]
        for position, option in enumerate(names):
            name = option.keyword
            if name is None or name.text not in OPTIONS:
                known = ", ".join(f":{option}" for option in OPTIONS)
                hint = did_you_mean(option.text, (f":{option}" for option in OPTIONS))
                raise self.place(option).error(
                    f"expected an option of {form.items[0].text}, got {option.text}",
                    hint=hint.replace("'", "") if hint else f"the options are {known}",
                )
            if position >= len(values):
                raise self.place(option).error(f"the option {name} of {form.items[0].text} has no value")
            if OPTIONS[name.text] in fields:
                raise self.place(option).error(f"the option {name} occurs twice; remove one of them")
            fields[OPTIONS[name.text]] = self.option_value(name.text, values[position])
        return fields

    def option_value(self, option: str, form: QueryForm) -> Any:
        """Return the value of an option. Raises CompileError if the option does not accept it."""
        if option == "as":
            return self.label(form)
        if option == "limit":
            return self.limit(form)
        return self.function(form) if option == "xform" else form.value

    def label(self, form: QueryForm) -> Any:
        """Return the key of a result."""
        label = form.keyword or form.value
        try:
            hash(label)
        except TypeError:
            raise self.place(form).error(
                f"expected a key of the result after :as, got {form.text}",
                hint="write a keyword, a string or another value that is hashable",
            ) from None
        return label

    def limit(self, form: QueryForm) -> int | None:
        """Return a limit, None for no limit."""
        whole = isinstance(form.value, int) and not isinstance(form.value, bool)
        if form.value is not None and not (whole and form.value > 0):
            raise self.place(form).error(
                f"expected a positive number or nil as a limit, got {form.text}", hint="nil means no limit"
            )
        return form.value  # type: ignore[no-any-return]

    def function(self, form: QueryForm) -> Callable[[Any], Any]:
        """Return the function of `:xform`: a callable, or the name of a function."""
        if callable(form.value) and not isinstance(form.value, Keyword):
            return form.value  # type: ignore[no-any-return]
        name = form.symbol
        if name is None:
            raise self.place(form).error(
                f"expected a function as the value of :xform, got {form.text}",
                hint="write a callable of Python, or the name of a function such as str/upper-case",
            )
        known = find_function(name)
        found = self.functions.get(name) or (None if known is None else known.evaluate)
        if found is None:
            hint = did_you_mean(name, known_functions(self.functions))
            raise self.place(form).error(
                f"unknown function {name}",
                hint=hint.replace("'", "")
                if hint
                else "pass it with functions=, or write the pattern as data of Python",
            )
        return found

    def old_options(self, form: QueryForm) -> dict[str, Any]:
        """Return the fields of `(limit :a 10)` or `(default :a 1)`."""
        option = _old_name(form.items[0])
        if option is None or len(form.items) != 3 or form.items[1].keyword is None:
            raise self.place(form).error(
                f"expected an attribute and a value after {form.items[0].text}, got {form.text}",
                hint=f"write [:person/name :{option} ...]",
            )
        name = form.items[1].keyword
        return {"name": name, "key": name, option: self.option_value(option, form.items[2])}

    def place(self, form: QueryForm) -> PatternPlace:
        """Return where a form is written."""
        return PatternPlace(self.sources, form.span)


def _old_name(form: QueryForm) -> str | None:
    """Return the option that `limit` or `default` at the start of a list means."""
    name = form.symbol
    return name if name in ("limit", "default") else None
