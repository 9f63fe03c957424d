"""The extractor of the demo finds the documented facts; the edits change the documented places."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import dbsp
from examples.stdlib_demo import edits, plain
from examples.stdlib_demo.demo import PROGRAM
from examples.stdlib_demo.extract import Facts, Library, library_files, library_root
from examples.stdlib_demo.fact_pipeline import DeltaFolders
from examples.stdlib_demo.recomputed import Comparison
from examples.stdlib_demo.report import Report
from examples.stdlib_demo.spark_demo import parts_of


def facts_of(texts: dict[str, str]) -> Facts:
    return Library.of(texts).facts()


def calls_of(text: str, others: dict[str, str] | None = None) -> set[tuple[str, str]]:
    """Return the calls of the module `m`, with callers relative to it."""
    calls = facts_of({"m": text} | (others or {})).calls
    return {(caller.removeprefix("m."), callee) for caller, callee in calls if caller.startswith("m.")}


# -- imports ------------------------------------------------------------------------------------

PACKAGE = {"p/__init__": "", "p.a": "", "p.b": "", "p.q/__init__": "", "p.q.c": ""}


@pytest.mark.parametrize(
    ("importer", "statement", "imported"),
    [
        ("p.b", "from . import a", {"p.a"}),
        ("p.b", "from .a import x", {"p.a"}),
        ("p.b", "from .q.c import x as y", {"p.q", "p.q.c"}),
        ("p.b", "from . import x", {"p"}),
        ("p.q.c", "from .. import a", {"p.a"}),
        ("p.q.c", "from ..a import *", {"p.a"}),
        ("p.q.c", "from ... import a", set()),  # above the top: a mistake of the file
        ("p/__init__", "from . import a", {"p.a"}),
        ("p/__init__", "from .q import c", {"p.q", "p.q.c"}),
        ("m", "import p.q.c", {"p", "p.q", "p.q.c"}),
        ("m", "import p.q.c as c, p.a", {"p", "p.q", "p.q.c", "p.a"}),
        ("m", "from p import a, nothing", {"p", "p.a"}),
        ("m", "import posix, not_there", set()),
        ("m", "try:\n    import p.a\nexcept ImportError:\n    pass", {"p", "p.a"}),
        ("m", "class C:\n    import p", {"p"}),
    ],
)
def test_imports_name_modules_that_exist(importer: str, statement: str, imported: set[str]) -> None:
    facts = facts_of(PACKAGE | {importer: statement})
    name = importer.removesuffix("/__init__")
    assert facts.imports == {(name, other) for other in imported}
    assert facts.defers == set()


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import a",
        "class C:\n    def f(self):\n        from a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
        "if __name__ == '__main__':\n    import a\n    a.main()",
    ],
)
def test_an_import_that_importing_the_file_does_not_run_is_deferred(text: str) -> None:
    facts = facts_of({"m": text, "a": "x = 1"})
    assert facts.imports == set()
    assert facts.defers == {("m", "a")}


# -- definitions and calls ----------------------------------------------------------------------


def test_definitions_are_functions_methods_classes_and_the_top_level() -> None:
    text = "def f():\n    def g(): pass\nclass C:\n    async def h(self): pass\n    class D: pass\n"
    assert {function for function, _ in facts_of({"m": text}).defines} == {
        *("m.<module>", "m.f", "m.f.<locals>.g", "m.C", "m.C.h", "m.C.D")
    }


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("def f(): g()\ndef g(): pass", {("f", "m.g")}),  # defined further down
        ("def f():\n    def g(): pass\n    g()", {("f", "m.f.<locals>.g")}),
        ("def g(): pass\ndef f():\n    def h(): g()", {("f.<locals>.h", "m.g")}),
        ("def g(): pass\ndef f(g): g()", set()),  # the argument hides the function
        ("def g(): pass\ndef f():\n    g = 1\n    g()", set()),
        ("def g(): pass\ndef f():\n    for g in []: g()", set()),
        ("def g(): pass\nf = lambda g: g()", set()),
        ("def g(): pass\nf = lambda x: g()", {("<module>", "m.g")}),
        ("def g(): pass\n@g\ndef f(x=g()): pass", {("<module>", "m.g")}),
        ("def f(): eval('1')", {("f", "builtins.eval")}),
        ("def eval(x): pass\ndef f(): eval('1')", {("f", "m.eval")}),
        ("def f(): nowhere()", set()),
        ("import os\ndef f(): os.system('x')", {("f", "os.system")}),
        ("import os as o\ndef f(): o.system('x')", {("f", "os.system")}),
        ("from os import system as run\ndef f(): run('x')", {("f", "os.system")}),
        ("import os.path\ndef f(): os.path.join('x')", {("f", "os.path.join")}),
        ("def f():\n    import os\n    os.system('x')\ndef g(): os.system('x')", {("f", "os.system")}),
        ("def g(): pass\nh = g\ndef f(): h()", {("f", "m.g")}),
        ("def g(): pass\nh = g\nh = 1\ndef f(): h()", set()),
        ("def f():\n    global g\n    g = 1\n    g()\ndef g(): pass", {("f", "m.g")}),
        ("try: import a as x\nexcept ImportError: x = None\ndef f(): x.g()", {("f", "a.g")}),
        ("x = x\nx()\n", set()),
        ("a = b\nb = a\na()\n", set()),
    ],
)
def test_a_name_means_what_its_scopes_bind(text: str, calls: set[tuple[str, str]]) -> None:
    assert calls_of(text) == calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("class C:\n    def f(self): self.g()\n    def g(self): pass", {("C.f", "m.C.g")}),
        ("class C:\n    def f(self): g()\n    def g(self): pass", set()),  # no bare name leads into a class
        ("class C:\n    def f(me):\n        def h(): me.f()", {("C.f.<locals>.h", "m.C.f")}),
        ("class C:\n    @classmethod\n    def f(cls): cls.f()", {("C.f", "m.C.f")}),
        ("class C:\n    @staticmethod\n    def f(x): x.f()", set()),
        ("class B:\n    def g(self): pass\nclass C(B):\n    def f(self): self.g()", {("C.f", "m.B.g")}),
        (
            "class B:\n    def g(self): pass\nclass C(B):\n    def g(self): super().g()",
            {("C.g", "m.B.g"), ("C.g", "builtins.super")},
        ),
        ("class C:\n    def f(self): self.x.f()", set()),
        ("class C:\n    def f(self): pass\ndef g(): C.f(1)", {("g", "m.C.f")}),
        ("class C:\n    def f(self): pass\ndef g(): C().f()", {("g", "m.C"), ("g", "m.C.f")}),
        ("class C:\n    def f(self): pass\ndef g():\n    c = C()\n    c.f()", {("g", "m.C"), ("g", "m.C.f")}),
        ("class C:\n    def __init__(self): pass\ndef g(): C()", {("C", "m.C.__init__"), ("g", "m.C")}),
        ("class C:\n    def __call__(self): pass\n    def f(self): self()", {("C.f", "m.C.__call__")}),
        ("class C(C):\n    def f(self): self.g()", set()),
    ],
)
def test_methods_are_found_in_the_class_and_its_bases(text: str, calls: set[tuple[str, str]]) -> None:
    assert calls_of(text) == calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("from a import f\nf()", {("<module>", "a.f")}),
        ("import a\na.f()", {("<module>", "a.f")}),
        ("from b import f\nf()", {("<module>", "a.f")}),  # b has it from a
        ("from b import *\nf()", {("<module>", "a.f")}),
        ("from b import *\n_hidden()", set()),
        ("from b import *\nlen(x)", {("<module>", "builtins.len")}),
        ("import b\nb.x.f()", {("<module>", "a.f")}),  # b.x is the module a
        ("from a import C\nclass D(C):\n    def g(self): self.h()", {("D.g", "a.C.h")}),
        ("from posix import *\nsystem('x')", {("<module>", "m.system")}),  # as `os` does it
        ("import c\nc.f()", set()),  # imported in a circle
    ],
)
def test_names_are_followed_into_other_files(text: str, calls: set[tuple[str, str]]) -> None:
    others = {
        "a": "def f(): pass\ndef _hidden(): pass\nclass C:\n    def h(self): pass\n",
        "b": "import a as x\nfrom a import *\nfrom a import f",
        "c": "from d import f",
        "d": "from c import f",
    }
    assert calls_of(text, others) == calls


def test_unresolved_calls_and_files_that_do_not_parse_are_counted() -> None:
    library = Library.of({"good": "def f(x): x()\n", "bad": "def f(:\n", "worse": "x = '\0'"})
    assert set(library.sources) == {"good"}
    assert [path for path, _ in library.skipped] == ["bad", "worse"]
    assert library.skipped[0][1].startswith("SyntaxError: ")
    assert library.facts().unresolved == 1


def test_unreadable_and_badly_encoded_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text("import os\n")
    (tmp_path / "coded.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (tmp_path / "wrong.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "left_out.py").write_text("")
    files = [*library_files(tmp_path), ("gone", tmp_path / "gone.py")]
    seen: list[None] = []
    library = Library.read(files, jobs=1, progress=lambda: seen.append(None))
    assert set(library.sources) == {"fine", "coded"}
    assert sorted(Path(path).name for path, _ in library.skipped) == ["gone.py", "wrong.py"]
    assert len(seen) == 4


def test_a_limit_takes_well_known_modules_first() -> None:
    names = [name for name, _ in library_files(library_root(), 12)]
    assert len(names) == 12
    assert {"os", "json", "subprocess"} <= set(names)


# -- edits --------------------------------------------------------------------------------------


def test_an_edit_changes_the_facts_of_its_file_only_and_can_be_undone() -> None:
    texts = {"m": "import a\ndef f(): pass\n", "a": "def g(): pass\n"}
    library = Library.of(texts)
    before = library.facts()
    edited = library.with_text("m", edits.drop_import(texts["m"], "m", package=False, imported="a"))
    assert before.changes_to(edited.facts()) == {"imports": {("m", "a"): -1}}
    edited = library.with_text("m", edits.add_statement(texts["m"], "f", "a.g()"))
    assert before.changes_to(edited.facts()) == {"calls": {("m.f", "a.g"): 1}}
    assert before.changes_to(edited.with_text("m", texts["m"]).facts()) == {}


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import a\nx = 1\n", "pass\nx = 1\n"),
        ("import b, a, c\n", "import b, c\n"),
        ("from a import (x,\n    y)\nz = 'é'; import a\n", "pass\nz = 'é'; pass\n"),
        ("def f():\n    'é'; import a; g()\n", "def f():\n    'é'; pass; g()\n"),
    ],
)
def test_dropping_an_import_leaves_the_rest_of_the_text(text: str, after: str) -> None:
    assert edits.drop_import(text, "m", package=False, imported="a") == after


def test_dropping_a_missing_import_is_an_error() -> None:
    with pytest.raises(ValueError, match="m does not import a"):
        edits.drop_import("import b\n", "m", package=False, imported="a")


@pytest.mark.parametrize(
    ("text", "name", "with_statement", "emptied"),
    [
        ("def f(): return 1\n", "f", "def f(): X(); return 1\n", "def f(): pass\n"),
        (
            "class C:\n    def f(self):\n        '''doc'''\n        return 1\n",
            "C.f",
            "class C:\n    def f(self):\n        '''doc'''\n        X()\n        return 1\n",
            "class C:\n    def f(self):\n        pass\n",
        ),
        (
            "def f():\n  def g():\n    @h\n    def k(): pass\n",
            "f.<locals>.g",
            "def f():\n  def g():\n    X()\n    @h\n    def k(): pass\n",
            "def f():\n  def g():\n    pass\n",
        ),
    ],
)
def test_editing_the_body_of_a_function(text: str, name: str, with_statement: str, emptied: str) -> None:
    assert edits.add_statement(text, name, "X()") == with_statement
    assert edits.empty_body(text, name) == emptied
    ast.parse(with_statement)


def test_editing_a_missing_function_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no function C\.g in this text"):
        edits.empty_body("class C:\n    def f(self): pass\n", "C.g")
    with pytest.raises(ValueError, match="C is a class"):
        edits.empty_body("class C: pass\n", "C")


# -- the baseline ------------------------------------------------------------------------------


def test_the_plain_recomputation_on_a_library_small_enough_to_check_by_hand() -> None:
    views = plain.recompute(
        facts_of(
            {
                "a": "import b\ndef f(): b.g()\n",
                "b": "import c\nimport os\ndef g(): os.system('x')\n",
                "c": "import b\ndef h():\n    import a\n",
                "d": "",
            }
        )
    )
    assert views["reaches"] == {("a", "b"), ("a", "c"), ("b", "c"), ("b", "b"), ("c", "b"), ("c", "c")}
    assert views["footprint"] == {("a", 2), ("b", 2), ("c", 2), ("d", 0)}
    assert views["cycle"] == {("b", "c")}
    assert views["held_back"] == {("c", "a")}
    assert views["unused"] == {("d",)}
    assert views["risky"] == {("a.f", "os.system"), ("b.g", "os.system")}
    assert views["exposure"] == {("a", "os.system", 1), ("b", "os.system", 1)}


# -- files in, deltas out ----------------------------------------------------------------------


def test_the_parts_of_the_facts_are_all_facts_once() -> None:
    facts = facts_of({"a": "import b", "b": "import c", "c": "", "c.d": "def f(): f()"})
    parts = list(parts_of(facts, 3))
    assert [title for title, _ in parts][-1] == "c"
    for name, rows in facts.relations().items():
        delivered = [row for _, changes in parts for row in changes.get(name, {})]
        assert sorted(delivered) == sorted(rows)


def write_delta(folder: Path, tick: int, rows: list[tuple[str, str, int]], sharded: bool) -> None:
    """Write the delta of `risky` as the sink of one process, or as the sinks of two shards do."""
    shards = [rows[::2], rows[1::2]] if sharded else [rows]
    for shard, part in enumerate(shards):
        columns = [list(column) for column in zip(*part, strict=True)] or [[], [], []]
        table = pa.table(columns, ["function", "danger", "weight"])
        if sharded:
            path = folder / "risky" / f"tick={tick}" / f"{shard}-0.parquet"
        else:
            path = folder / "risky" / f"tick-{tick:012d}.parquet"
            table = table.append_column("tick", pa.array([tick] * len(part)))
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)


@pytest.mark.parametrize("sharded", [False, True], ids=["one process", "shards"])
def test_the_views_are_the_sum_of_the_deltas_of_all_ticks(tmp_path: Path, sharded: bool) -> None:
    (tmp_path / "unused").mkdir()  # no tick has changed this view
    write_delta(tmp_path, 1, [("f", "eval", 1), ("g", "eval", 1)], sharded)
    deltas = DeltaFolders(tmp_path, ["risky", "unused"])
    assert deltas.read(1) == {"risky": {("f", "eval"): 1, ("g", "eval"): 1}}
    write_delta(tmp_path, 3, [("f", "eval", -1), ("h", "eval", 1)], sharded)
    write_delta(tmp_path, 4, [("i", "eval", 1), ("j", "eval", 1)], sharded)
    assert deltas.read(3) == {"risky": {("f", "eval"): -1, ("h", "eval"): 1}}
    assert deltas.views == {"risky": {("g", "eval"): 1, ("h", "eval"): 1}, "unused": {}}


def test_a_row_with_a_wrong_weight_differs_from_both_recomputations() -> None:
    facts = facts_of({"a": "import os\ndef f(): os.system('x')\n"})
    program = dbsp.compile(PROGRAM)
    views = {name: dict.fromkeys(rows, 1) for name, rows in plain.recompute(facts).items()}
    out = io.StringIO()
    comparison = Comparison(program, Report(Console(file=out, width=200), rows=8))
    comparison.check(views, facts, "load")
    assert (comparison.differences, out.getvalue()) == (0, "")
    views["risky"]["a.f", "os.system"] = 2
    comparison.check(views, facts, "tick 2")
    assert comparison.differences == 2
    assert (
        "risky after tick 2 differs from a fresh run in 1 rows: ('a.f', 'os.system') has the weight 2,"
        in (out.getvalue())
    )
