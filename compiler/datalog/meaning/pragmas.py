"""`.pragma "key" "value"`: options of Soufflé within the program.

These options have an effect:

- `legacy`: no warnings about deprecated forms, and a head accepts values of other subtypes;
- `inline-exclude`: relations declared `inline` that are not inlined, separated by commas;
- `magic-transform`, `magic-transform-exclude`: relations that are derived on demand, `*` for all,
  and relations that are not;
- `word-size`: the bits of a number, 32 or 64; the argument `word_size` of `compile` takes
  precedence. Soufflé has no such option: there the word size is set when Soufflé is built;
- `negation`: the meaning of negation, `stratified` or `well-founded`; the argument `negation` of
  `compile` takes precedence. Soufflé has only the first.

Other options of Soufflé concern its own evaluation, or are options of the command line here; they
are ignored. A key that Soufflé does not know gives a warning.
"""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.compiler.datalog.meaning.word_size import WORD_SIZES
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import did_you_mean
from dbsp.lazy_dataclass import dataclass

_LISTS = ("inline-exclude", "magic-transform", "magic-transform-exclude")
_WORD_SIZE = "word-size"
_NEGATION = "negation"
_SUPPORTED = frozenset({"legacy", _WORD_SIZE, _NEGATION, *_LISTS})
# fmt: off
_IGNORED = frozenset({
    "auto-schedule", "compile", "compile-many", "debug-report", "disable-transformers", "dl-program",
    "emit-statistics", "fact-dir", "generate", "generate-many", "include-dir", "index-stats", "interpreter",
    "jobs", "libraries", "library-dir", "live-profile", "macro",
    "no-preprocessor", "no-warn", "output-dir", "parse-errors", "pragma",
    "preprocessor", "profile", "profile-frequency", "provenance", "show", "suppress-warnings",
    "swig", "verbose", "warn",
})
_MULTIPLE = frozenset({"include-dir", "libraries", "library-dir", "macro", "inline-exclude"})
# fmt: on


@dataclass(frozen=True, slots=True)
class Pragmas:
    """The settings of the pragmas of a program."""

    legacy: bool = False
    not_inlined: frozenset[str] = frozenset()
    magic: frozenset[str] = frozenset()
    no_magic: frozenset[str] = frozenset()
    word_size: int | None = None
    negation: Negation | None = None


def read_pragmas(items: Iterable[parsed.Item], report: Report) -> Pragmas:
    """The pragmas of a program; a repeated key gives a warning, and the last value counts."""
    given: dict[str, parsed.Pragma] = {}
    lists: dict[str, frozenset[str]] = dict.fromkeys(_LISTS, frozenset())
    for item in items:
        if not isinstance(item, parsed.Pragma):
            continue
        key = item.key
        if key not in _SUPPORTED | _IGNORED:
            hint = did_you_mean(key, _SUPPORTED | _IGNORED)
            report.warning(item.span, f"unknown pragma '{key}' is ignored", hint, code="no-effect")
        elif key in given and key not in _MULTIPLE:
            message = f"pragma '{key}' is written twice; this value is used"
            hint = f"also written at {given[key].span.place}"
            report.warning(item.span, message, hint, code="duplicate-directive")
        if key == _WORD_SIZE and item.value not in map(str, WORD_SIZES):
            message = f"expected a word size of 32 or 64 bits, got '{item.value}'"
            report.error(item.span, message, code="invalid-directive")
            continue
        if key == _NEGATION and item.value not in list(Negation):
            message = f"expected a negation 'stratified' or 'well-founded', got '{item.value}'"
            hint = did_you_mean(item.value, map(str, Negation))
            report.error(item.span, message, hint, code="invalid-directive")
            continue
        given[key] = item
        if key in lists:
            names = frozenset(name.strip() for name in item.value.split(","))
            lists[key] = names | lists[key] if key in _MULTIPLE else names
    word_size = int(given[_WORD_SIZE].value) if _WORD_SIZE in given else None
    negation = Negation(given[_NEGATION].value) if _NEGATION in given else None
    not_inlined, magic, no_magic = (lists[name] for name in _LISTS)
    return Pragmas("legacy" in given, not_inlined, magic, no_magic, word_size, negation)
