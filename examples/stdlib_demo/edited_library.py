"""The library of the demo with its edits, each chosen among the facts after the previous edit."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.stdlib_demo import edits
from examples.stdlib_demo.extract import Facts, Library, Row


@dataclass(frozen=True)
class Edit:
    """One or more files with a new text each."""

    title: str
    texts: Mapping[str, str]


class EditedLibrary:
    """A library, its facts, and the files edited so far."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.facts: Facts = library.facts()
        self._texts: dict[str, str] = {}

    def edits(self) -> Iterable[Edit]:
        """Yield the edits of the demo; `apply` each one before the next."""
        for choose in (self._drop_an_import, self._add_a_call, self._empty_a_function):
            edit = choose()
            if edit is not None:
                yield edit

    def restoration(self) -> Edit:
        """Return the edit that undoes all others."""
        original = {name: _file_text(self.library.sources[name].path) for name in self._texts}
        return Edit(f"all files restored: {', '.join(original)}", original)

    def apply(self, edit: Edit) -> dict[str, dict[Row, int]]:
        """Read the edited files again; return the changes of the facts."""
        self._texts |= edit.texts
        for name, text in edit.texts.items():
            self.library = self.library.with_text(name, text)
        before, self.facts = self.facts, self.library.facts()
        return before.changes_to(self.facts)

    def _text(self, module: str) -> str:
        """Return the current text of a file."""
        return self._texts.get(module) or _file_text(self.library.sources[module].path)

    def _drop_an_import(self) -> Edit | None:
        preferred = [
            ("shutil", "zipfile"),
            ("tempfile", "shutil"),
            ("inspect", "dis"),
            ("argparse", "gettext"),
        ]
        for importer, imported in [*preferred, *sorted(self.facts.imports)]:
            if (importer, imported) in self.facts.imports:
                text, package = self._text(importer), self.library.sources[importer].package
                try:
                    text = edits.drop_import(text, importer, package=package, imported=imported)
                except ValueError:  # only a package on the path to an imported module
                    continue
                return Edit(f"{importer} no longer imports {imported}", {importer: text})
        return None

    def _add_a_call(self) -> Edit | None:
        function = self._pick("json.decoder.JSONDecoder.decode", "shutil.copyfile")
        if function is None:
            return None
        module, name = function
        text = edits.add_statement(self._text(module), name, "import os; os.system('true')")
        return Edit(f"{module}.{name} calls os.system", {module: text})

    def _empty_a_function(self) -> Edit | None:
        function = self._pick("subprocess.Popen.__init__", "subprocess.run")
        if function is None:
            return None
        module, name = function
        return Edit(f"{module}.{name} does nothing", {module: edits.empty_body(self._text(module), name)})

    def _pick(self, *preferred: str) -> tuple[str, str] | None:
        """Return (module, name inside it) of a preferred function, or else of a called function."""
        home = dict(self.facts.defines)
        called = sorted({callee for caller, callee in self.facts.calls if callee in home and caller in home})
        for function in [*preferred, *called]:
            module = home.get(function)
            if module is not None and "<" not in function:
                name = function.removeprefix(f"{module}.")
                try:
                    edits.empty_body(self._text(module), name)
                except ValueError:  # a class
                    continue
                return module, name
        return None


def _file_text(path: str) -> str:
    with tokenize.open(path) as file:  # respects coding cookies
        return file.read()
