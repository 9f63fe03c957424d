"""The program of `dbsp live --checkpoint`, as text beside the state that belongs to it.

    programs/IDENTITY.json    the text of the file and its included files, the edits of the console,
                              and the watched queries

A checkpoint belongs to one program, by its identity. Each text is written before an update to it,
and the others are removed afterwards; so there is always the text of the program that the folder
belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dbsp.cli.program_draft import ProgramDraft
from dbsp.cli.query_relation import QueryRelation
from dbsp.compiler.datalog.compiler_passes import SourceText
from dbsp.compiler.datalog.text.preprocess import AddedText
from dbsp.compiler.program import Program
from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.sealed_files import decoding, read_header, sealed_json
from dbsp.lazy_dataclass import dataclass

FORMAT = "dbsp live program"
VERSION = 1
FOLDER = "programs"


@dataclass(frozen=True)
class StoredProgram:
    """A program with its edits and watched queries."""

    draft: ProgramDraft
    queries: tuple[QueryRelation, ...]

    def compiled(self) -> Program:
        """Compile the program with its edits and queries. Raises CompileError."""
        return self.draft.compiled([each.added for each in self.queries])


class StoredPrograms:
    """The texts of programs in the folder of a checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / FOLDER

    def write(self, identity: str, draft: ProgramDraft, queries: Sequence[QueryRelation]) -> None:
        """Write the text of a program, which the next update makes current.

        Raises CheckpointError if the disk is full.
        """
        base = draft.base
        texts = base.checked.sources.texts
        document = {
            "format": FORMAT,
            "version": VERSION,
            "file": base.file,
            "text": base.text,
            "included": {name: text for name, text in texts.items() if name != base.file},
            "edited": draft.text,
            "console": [draft.added.file, draft.added.text],
            "queries": [
                [each.number, each.body, each.relation, each.added.file, each.added.text] for each in queries
            ],
        }
        path = self._folder / f"{identity}.json"
        with reports_full_disk(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, sealed_json(f"{FOLDER}/{identity}", document, indent=1), sync=True)

    def keep(self, identity: str) -> None:
        """Remove all texts but that of the current program."""
        for path in self._folder.glob("*.json"):
            if path.stem != identity:
                path.unlink(missing_ok=True)

    def read(self, identity: str, like: Program) -> StoredProgram | None:
        """Return a program, compiled with the options of the program `like`.

        None if there is no text of it. Raises CheckpointError if the text is damaged, CompileError
        for other options than those with which it was compiled before.
        """
        path = self._folder / f"{identity}.json"
        found = read_header(path, FORMAT, VERSION, f"{FOLDER}/{identity}")
        if found is None:
            return None
        with decoding(path):
            included = {str(name): str(text) for name, text in found["included"].items()}
            file, text, edited = str(found["file"]), str(found["text"]), str(found["edited"])
            added = AddedText(*map(str, found["console"]))
            queries = tuple(
                QueryRelation(int(number), str(body), str(relation), AddedText(str(name), str(rule)))
                for number, body, relation, name, rule in found["queries"]
            )
        source = SourceText(text, file, replace(like.source.sources, texts=included, added=()))
        draft = ProgramDraft.restored(Program(source, like.options), edited, added)
        return StoredProgram(draft, queries)
