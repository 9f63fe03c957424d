"""The source of a program as JSON, which a checkpoint keeps to continue the program.

It has every text that was compiled and the options that decide about the circuit. Functors are
Python functions, and come from the program that is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbsp.compiler.datalog.compile_options import CompileOptions
from dbsp.compiler.datalog.compiler_passes import SourceText
from dbsp.compiler.datalog.meaning.negation import Negation
from dbsp.compiler.datalog.text.preprocess import AddedText, Sources
from dbsp.errors import CheckpointError
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.recursion.modes import Recursion


def source_document(source: SourceText, texts: Mapping[str, str], options: CompileOptions) -> dict[str, Any]:
    """Return a source as JSON; `texts` are all its texts, by file."""
    added = source.sources.added
    own = {source.file, *(each.file for each in added)}
    return {
        "file": source.file,
        "text": source.text,
        "unedited": source.unedited,
        "include": [str(folder) for folder in source.sources.folders],
        "included": {name: text for name, text in texts.items() if name not in own},
        "added": [[each.file, each.text] for each in added],
        "macros": dict(source.sources.macros),
        "options": {
            "strategy": options.strategy.value,
            "disabled": sorted(options.disabled),
            "magic": list(options.magic) if isinstance(options.magic, tuple) else options.magic,
            "recursion": options.recursion.value,
            "word_size": options.word_size,
            "legacy": options.legacy,
            "negation": None if options.negation is None else options.negation.value,
        },
    }


def read_source(
    document: Mapping[str, Any], functors: Mapping[str, Callable[..., Any]]
) -> tuple[SourceText, CompileOptions]:
    """Return the source and the options of a program from JSON.

    Raises CheckpointError if the document has another form than this version writes.
    """
    try:
        chosen = dict(document["options"])
        magic = chosen["magic"]
        options = CompileOptions(
            strategy=Strategy(chosen["strategy"]),
            disabled=frozenset(map(str, chosen["disabled"])),
            magic=tuple(map(str, magic)) if isinstance(magic, list) else magic,
            functors=functors,
            recursion=Recursion(chosen["recursion"]),
            word_size=chosen["word_size"],
            legacy=chosen["legacy"],
            negation=None if chosen["negation"] is None else Negation(chosen["negation"]),
        )
        sources = Sources(
            folders=tuple(map(Path, document["include"])),
            macros=dict(document["macros"]),
            word_size=options.word_size or 64,
            texts=dict(document["included"]),
            added=tuple(AddedText(file, text) for file, text in document["added"]),
        )
        return SourceText(document["text"], document["file"], sources, document["unedited"]), options
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"cannot read the program of the checkpoint ({type(error).__name__}: {error}); continue with the "
            "version of dbsp that wrote it",
            code="checkpoint-unreadable",
        ) from None


def as_file(source: SourceText) -> SourceText:
    """Return the source of the file without edits: without added texts and dropped parts."""
    text = source.text if source.unedited is None else source.unedited
    return SourceText(text, source.file, replace(source.sources, added=()))
