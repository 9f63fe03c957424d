"""Facts from the standard library's own source: modules, definitions, imports, calls.

    module(name, path)           a file of the library
    imports(importer, imported)  run when `importer` is imported; both are modules of the library
    defers(importer, imported)   inside a function, or under `if TYPE_CHECKING`: not run on import
    defines(function, module)    functions, methods, classes, `m.<module>` for top-level code
    calls(caller, callee)        calls whose callee can be resolved by name

A call finds its callee in this order: names of the enclosing functions, of the module, imported
names (through re-exports and `from m import *`), builtins; `self.method` and `cls.method` within a
class and its bases; `super().method`; a variable assigned once from another name or from a
constructor call. Calling a class calls its `__init__`. A function in no file of the library (C
modules such as `posix`) keeps its dotted name. Not resolved: values passed as arguments, attributes
of attributes, containers, subclasses that override a method. Such calls are counted as unresolved.
"""

from __future__ import annotations

import builtins
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from examples.stdlib_demo.source import ModuleSource, read_source

SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
# With a limit these are read first, so that a few files give non-empty views.
WELL_KNOWN = ("os", "subprocess", "posixpath", "genericpath", "stat", "shutil", "tempfile", "json", "pickle")
_BUILTINS = frozenset(dir(builtins))
_MAX_DEPTH = 40

Row = tuple[str, str]


@dataclass(slots=True)
class Facts:
    """The relations of the demo, one set of rows each."""

    module: set[Row] = field(default_factory=set)
    imports: set[Row] = field(default_factory=set)
    defers: set[Row] = field(default_factory=set)
    defines: set[Row] = field(default_factory=set)
    calls: set[Row] = field(default_factory=set)
    unresolved: int = 0

    def relations(self) -> dict[str, set[Row]]:
        return {name: getattr(self, name) for name in ("module", "imports", "defers", "defines", "calls")}

    def changes_to(self, new: Facts) -> dict[str, dict[Row, int]]:
        """Return the delta per relation from these facts to the `new` ones."""
        changes: dict[str, dict[Row, int]] = {}
        for (name, before), after in zip(self.relations().items(), new.relations().values(), strict=True):
            delta = dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1)
            if delta:
                changes[name] = delta
        return changes


def library_root() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def library_files(root: Path, limit: int | None = None) -> list[tuple[str, Path]]:
    """Return (module name, path) of every source file under `root`, sorted, without tests."""
    found: list[tuple[str, Path]] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and f.isidentifier())
        parts = Path(folder).relative_to(root).parts
        for file in files:
            stem, extension = os.path.splitext(file)
            if extension == ".py" and stem.isidentifier():
                names = parts if stem == "__init__" else (*parts, stem)
                if names:
                    found.append((".".join(names), Path(folder, file)))
    found.sort()
    if limit is None:
        return found
    return sorted(found, key=lambda item: item[0] not in WELL_KNOWN)[:limit]


@dataclass(frozen=True)
class Library:
    """The sources read; paths between them are resolved on demand."""

    sources: dict[str, ModuleSource]
    skipped: tuple[tuple[str, str], ...] = ()  # (path, why): syntax errors, unreadable files

    @classmethod
    def read(
        cls,
        files: Iterable[tuple[str, Path]],
        *,
        jobs: int | None = None,
        progress: Callable[[], None] | None = None,
    ) -> Library:
        """Read files and call `progress` after each; skip and list files with errors."""
        sources: dict[str, ModuleSource] = {}
        skipped: list[tuple[str, str]] = []
        for outcome in _read_all(list(files), jobs or os.cpu_count() or 1):
            if isinstance(outcome, ModuleSource):
                sources[outcome.name] = outcome
            else:
                skipped.append(outcome)
            if progress is not None:
                progress()
        return cls(sources, tuple(skipped))

    @classmethod
    def of(cls, texts: dict[str, str]) -> Library:
        """Return a library of source texts by module name; `name/__init__` is a package."""
        sources: dict[str, ModuleSource] = {}
        skipped: list[tuple[str, str]] = []
        for label, text in texts.items():
            name, package = label.removesuffix("/__init__"), label.endswith("/__init__")
            outcome = _read_text(name, label, text, package)
            if isinstance(outcome, ModuleSource):
                sources[name] = outcome
            else:
                skipped.append(outcome)
        return cls(sources, tuple(skipped))

    def with_text(self, name: str, text: str) -> Library:
        """Return the library with one file edited. Raises SyntaxError for an invalid text."""
        old = self.sources[name]
        new = read_source(name, old.path, text, package=old.package)
        return replace(self, sources=self.sources | {name: new})

    def facts(self) -> Facts:
        """Return all facts. Cost: one look-up per call in the source."""
        facts, links = Facts(), _Links(self.sources)
        for name, source in self.sources.items():
            facts.module.add((name, source.path))
            facts.imports.update((name, other) for other in links.imported(name, source.imports))
            facts.defers.update((name, other) for other in links.imported(name, source.deferred))
            facts.defines.update((function, name) for function in source.functions)
            facts.unresolved += source.unresolved
            for caller, path in source.calls:
                callee = links.resolve(path)
                if callee is not None:
                    facts.calls.add((caller, callee))
                elif not path.endswith(("__init__", "__new__")):  # a class without a constructor
                    facts.unresolved += 1
        facts.defers -= facts.imports
        return facts


class _Links:
    """Resolves paths across files and caches the results."""

    def __init__(self, sources: dict[str, ModuleSource]) -> None:
        self.sources = sources
        self.known: dict[str, str | None] = {}

    def imported(self, importer: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield the modules of the library that import statements run, including parent packages.

        A package that is already being imported (`from . import x` inside it) does not run again.
        """
        for base, name in pairs:
            module = f"{base}.{name}" if name and f"{base}.{name}" in self.sources else base
            parts = module.split(".")
            for end in range(1, len(parts) + 1):
                passed = ".".join(parts[:end])
                if passed not in self.sources or passed == importer:
                    continue
                if end == len(parts) or not importer.startswith(f"{passed}."):
                    yield passed

    def resolve(self, path: str, depth: int = 0) -> str | None:
        """Return the function, class or foreign name of a path; None if it is unknown."""
        if depth == 0 and path in self.known:
            return self.known[path]
        answer = None if depth > _MAX_DEPTH else self._resolve(path, depth)
        if depth == 0:
            self.known[path] = answer
        return answer

    def _resolve(self, path: str, depth: int) -> str | None:
        if path.startswith("global:"):
            return self._resolve_global(path.removeprefix("global:"), depth)
        if path.startswith("super:"):
            owner, _, method = path.removeprefix("super:").rpartition(".")
            return self._inherited(owner, method, depth)
        before, mark, after = path.rpartition("()")
        if mark:
            class_ = self.resolve(before, depth + 1)
            method = after.removeprefix(".") or "__call__"
            return self._method(class_, method, depth) if class_ is not None else None
        module, name = self._split(path)
        if module is None:
            return path
        if not name:
            return None  # a module is not called
        source = self.sources[module]
        if path in source.functions:
            return path
        first, _, rest = name.partition(".")
        if first in source.names:
            target = source.names[first]
            if target is None:
                return None
            if target != f"{module}.{first}":
                return self.resolve(f"{target}.{rest}" if rest else target, depth + 1)
            owner, _, method = path.rpartition(".")
            return self._method(owner, method, depth)
        for star in source.stars:
            if star in self.sources and self._offers(star, first, depth):
                return self.resolve(f"{star}.{name}", depth + 1)
        return path  # defined in a C module or at run time: `os.system`

    def _resolve_global(self, path: str, depth: int) -> str | None:
        module, name = self._split(path)
        assert module is not None
        first = name.partition(".")[0]
        source = self.sources[module]
        if first in source.names or any(self._offers(star, first, depth) for star in source.stars):
            return self.resolve(path, depth + 1)
        if first in _BUILTINS:
            return f"builtins.{name}"
        return path if any(star not in self.sources for star in source.stars) else None

    def _split(self, path: str) -> tuple[str | None, str]:
        """Return (the longest module that starts the path, the rest)."""
        module, rest = path, ""
        while module not in self.sources:
            module, dot, last = module.rpartition(".")
            if not dot:
                return None, path
            rest = f"{last}.{rest}" if rest else last
        return module, rest

    def _offers(self, star: str, name: str, depth: int) -> bool:
        source = self.sources.get(star)
        if source is None or name.startswith("_") or depth > _MAX_DEPTH:
            return False
        return name in source.names or any(self._offers(more, name, depth + 1) for more in source.stars)

    def _method(self, owner: str, method: str, depth: int) -> str | None:
        """Return a method of a class or of its bases, depth first."""
        source = self.sources.get(self._split(owner)[0] or "")
        if source is None or owner not in source.bases:
            return None
        path = f"{owner}.{method}"
        return path if path in source.functions else self._inherited(owner, method, depth)

    def _inherited(self, owner: str, method: str, depth: int) -> str | None:
        source = self.sources.get(self._split(owner)[0] or "")
        for base in source.bases.get(owner, ()) if source is not None and depth < _MAX_DEPTH else ():
            known = self.resolve(base, depth + 1)
            found = self._method(known, method, depth + 1) if known is not None else None
            if found is not None:
                return found
        return None


_Outcome = ModuleSource | tuple[str, str]


def _read_all(files: list[tuple[str, Path]], jobs: int) -> Iterator[_Outcome]:
    if jobs <= 1 or len(files) < 100:  # starting a process costs more than reading a few files
        yield from (_read_file(file) for file in files)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_read_file, files, chunksize=8)


def _read_file(file: tuple[str, Path]) -> _Outcome:
    name, path = file
    try:
        text = path.read_bytes()
    except OSError as error:
        return str(path), str(error)
    return _read_text(name, str(path), text, path.name == "__init__.py")


def _read_text(name: str, path: str, text: str | bytes, package: bool) -> _Outcome:
    try:
        return read_source(name, path, text, package=package)
    except (SyntaxError, ValueError, RecursionError) as error:
        return path, f"{type(error).__name__}: {error}"
