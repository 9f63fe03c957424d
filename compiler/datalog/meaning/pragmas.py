"""`.pragma "key" "value"`: Souffle's options, given in the program.

What has a meaning here is honoured:

- `legacy`: no warnings about deprecated forms;
- `inline-exclude`: relations, with commas between them, that are not inlined though declared so;
- `magic-transform`, `magic-transform-exclude`: relations that are to be derived on demand, `*` for all, and
  those that are not;
- `word-size`: 32 or 64, how many bits a number has, unless the program is compiled with another; Souffle has
  no such option, where it depends on how Souffle was built.

Other options of Souffle are about how it computes, or are given on the command line here; they are read and
mean nothing. A key that Souffle does not know is met with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dbsp.compiler.datalog.meaning.word_size import WORD_SIZES
from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import did_you_mean

_LISTS = ("inline-exclude", "magic-transform", "magic-transform-exclude")
_WORD_SIZE = "word-size"
_HONOURED = frozenset({"legacy", _WORD_SIZE, *_LISTS})
# fmt: off
_WITHOUT_MEANING = frozenset({
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
    """What the pragmas of a program ask for."""

    legacy: bool = False
    not_inlined: frozenset[str] = frozenset()
    magic: frozenset[str] = frozenset()
    no_magic: frozenset[str] = frozenset()
    word_size: int | None = None


def read_pragmas(items: Iterable[parsed.Item], report: Report) -> Pragmas:
    """The pragmas of a program; of one key given twice the last counts, with a warning."""
    given: dict[str, parsed.Pragma] = {}
    lists: dict[str, frozenset[str]] = dict.fromkeys(_LISTS, frozenset())
    for item in items:
        if not isinstance(item, parsed.Pragma):
            continue
        key = item.key
        if key not in _HONOURED | _WITHOUT_MEANING:
            hint = did_you_mean(key, _HONOURED | _WITHOUT_MEANING)
            report.warning(item.span, f"unknown pragma '{key}' means nothing", hint)
        elif key in given and key not in _MULTIPLE:
            message = f"pragma '{key}' is given already, which this overrides"
            report.warning(item.span, message, f"given at {given[key].span.place}")
        if key == _WORD_SIZE and item.value not in map(str, WORD_SIZES):
            report.error(item.span, f"a word of '{item.value}' bits", "numbers have 32 bits or 64")
            continue
        given[key] = item
        if key in lists:
            names = frozenset(name.strip() for name in item.value.split(","))
            lists[key] = names | lists[key] if key in _MULTIPLE else names
    word_size = int(given[_WORD_SIZE].value) if _WORD_SIZE in given else None
    not_inlined, magic, no_magic = (lists[name] for name in _LISTS)
    return Pragmas("legacy" in given, not_inlined, magic, no_magic, word_size)
