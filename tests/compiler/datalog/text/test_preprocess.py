"""The preprocessor: its tokens and their places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.compiler.datalog.text.preprocess import Sources, preprocess
from dbsp.compiler.datalog.text.report import Report


def words(text: str, **macros: str) -> str:
    report = Report("t.dl", text)
    found = " ".join(preprocess(text, report, Sources(macros=macros)))
    report.raise_errors()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A B\n#define B 1\nA B", "1 1"),
        ("#define A A x\nA", "A x"),
        ("#define A B\n#define B A\nA B", "A B"),
        ("#define F(x) x + F(x)\nF(F(1))", "1 + F ( 1 ) + F ( 1 + F ( 1 ) )"),
        ("#define F(x) [x]\nF F(1) F\n(2)", "F [ 1 ] [ 2 ]"),
        ("#define G F\n#define F(x) x!\nG(1)", "1 !"),
        ("#define F(x, y) y x\nF((1, 2), )", "( 1 , 2 )"),
        ("#define F() 1\nF() F( )", "1 1"),
        ('#define N 4\n#define F(x) #x x\nF(a  N+"s\\n")', r'"a N+\"s\\n\"" a 4 + "s\n"'),
        ("#define N 4\n#define F(x, y) x ## y x ## N\nF(N, 2) F(, b)", "N2 NN b 4"),
        ("#define F (x)\nF", "( x )"),
        ("a /* #define a b\n#define a c */ a // #define a d\n", "a a"),
        ("  #  define  a \\\n  b // c\na", "b"),
        ("#define f(x) x\n#undef f\nf(1)", "f ( 1 )"),
        ("#ifdef A\n1\n#else\n2\n#endif\n#ifndef A\n3\n#endif", "2 3"),
        ("#ifdef A\n#ifndef A\n1\n#else\n2\n#endif\n#define B 1\n#else\n3\n#endif\nB", "3 B"),
        (
            "#define F(x) x.path x.y.x\n#define I a\nF(b) I.path F(I) J.I",
            "b.path b.y.b a.path a.path a.y.a J.a",
        ),
        ('#\n# 12 "file.dl"\na', "a"),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert words(text) == expected


def test_macros_from_the_caller() -> None:
    assert words("#ifdef A\nA\n#endif", A="1 + 2") == "1 + 2"
    program = dbsp.compile(".decl a(x: number, s: symbol)\n.output a\na(N, S).", macros={"N": 3, "S": '"t"'})
    assert program.facts == {"a": [(3, "t")]}
    with pytest.raises(dbsp.CompileError) as refused:
        dbsp.compile(".decl a(x: number)\na(N).", macros={"N": "`", "1x": "2"})
    assert [str(one.span) for one in refused.value.diagnostics] == ["<program>:2:3", "<macro 1x>:1:1"]


def test_macros_that_expand_to_too_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbsp.compiler.datalog.text.macros.MAX_TOKENS", 1_000)
    text = "#define A0 1\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 30))
    with pytest.raises(dbsp.CompileError) as refused:
        words(text + "A29")
    assert str(refused.value) == (
        "t.dl:31:1: error: the macros expand to more than 1,000 tokens [program-too-large]\n    A29\n    ^^^"
    )


def test_an_included_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "part.dl").write_bytes(b"// \xff")
    (tmp_path / "p.dl").write_text('#include "part.dl"\n')
    with pytest.raises(dbsp.CompileError) as refused:
        dbsp.compile(tmp_path / "p.dl")
    message = f"cannot read '{tmp_path / 'part.dl'}': byte 3 is not UTF-8 text [unreadable-file]"
    assert str(refused.value).startswith(f"{tmp_path / 'p.dl'}:1:1: error: {message}\n")


def test_an_included_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part.dl").touch()
    (tmp_path / "p.dl").write_text('#include "part.dl"\n')
    genuine = Path.read_text

    def refuse(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "part.dl":
            raise PermissionError(13, "Permission denied")
        return genuine(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(dbsp.CompileError) as refused:
        dbsp.compile(tmp_path / "p.dl")
    message = f"cannot read '{tmp_path / 'part.dl'}': Permission denied [unreadable-file]"
    assert str(refused.value).startswith(f"{tmp_path / 'p.dl'}:1:1: error: {message}\n")


def test_a_second_definition_is_a_warning() -> None:
    text = "#define N 1\n#define N 1\n#define N 2\n.decl a(x: number)\n.output a\na(N).\n"
    program = dbsp.compile(text)
    assert program.facts == {"a": [(2,)]}
    assert [warning.span.line for warning in program.warnings] == [3]


def test_tokens_have_their_place_in_the_source() -> None:
    text = "#define F(x) y x\n  F(a) b"
    places = [(str(token), token.span.column, token.span.end_column) for token in tokens(text)]
    assert places == [("y", 3, 7), ("a", 5, 6), ("b", 8, 9)]


def tokens(text: str) -> Iterator[PlacedToken]:
    return preprocess(text, Report("t.dl", text), Sources())


def test_the_place_from_one_token_to_another() -> None:
    text = "#define SWAP(x, y) y x\na\nbc SWAP(d, e)\n"
    a, bc, e, d = tokens(text)
    both = a.to(bc)
    assert (both.line, both.column, both.end_line, both.end_column) == (2, 1, 3, 3)
    assert a.to(a) == a.span
    assert e.to(d) == e.span  # the text of an argument keeps its place: `d` is before `e`
    (macro,) = tokens("#define A b\n\nA")
    assert a.to(macro) == a.span.to(macro.span)


def test_files_are_found_beside_the_file_and_then_in_the_folders(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "a.dl").write_text('#include "b.dl"\n#include <c.dl>\n.output a\n')
    (tmp_path / "here" / "b.dl").write_text(".decl a(x: number)\n")
    (tmp_path / "there" / "b.dl").write_text("never read")
    (tmp_path / "there" / "c.dl").write_text("a(1).\n")
    program = dbsp.compile(tmp_path / "here" / "a.dl", include=[tmp_path / "there"])
    assert program.facts == {"a": [(1,)]}
    assert program.checked.facts[0].span.file == str(tmp_path / "there" / "c.dl")
    with pytest.raises(dbsp.CompileError, match=r"file 'c.dl' not found"):
        dbsp.compile(tmp_path / "here" / "a.dl")


def test_included_files_that_cannot_be_read(tmp_path: Path) -> None:
    main = tmp_path / "main.dl"
    main.write_text('#include "latin.dl"\n')
    (tmp_path / "latin.dl").write_bytes(b"// caf\xe9\n")
    with pytest.raises(dbsp.CompileError, match=r"byte 6 is not UTF-8 text \[unreadable-file\]"):
        dbsp.compile(main)
    for number in range(60):
        (tmp_path / f"f{number}.dl").write_text(f'#include "f{number + 1}.dl"\n')
    with pytest.raises(dbsp.CompileError, match=r"nested more than 50 levels deep \[program-too-large\]"):
        dbsp.compile(tmp_path / "f0.dl")


def test_a_file_that_includes_itself_under_a_condition(tmp_path: Path) -> None:
    text = '#ifndef A\n#define A\n#include "a.dl"\n.decl a(x: number)\n.output a\na(1).\n#endif\n'
    (tmp_path / "a.dl").write_text(text)
    assert dbsp.compile(tmp_path / "a.dl").facts == {"a": [(1,)]}


@pytest.mark.slow
def test_macros_that_expand_to_too_many_tokens_are_an_error() -> None:
    doubled = "\n".join(f"#define A{n} A{n - 1}, A{n - 1}" for n in range(1, 60))
    with pytest.raises(dbsp.CompileError, match="more than 1,000,000 tokens"):
        words(f"{doubled}\nA59")


def test_a_checkpoint_of_another_included_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text('#include "b.dl"\n.decl a(x: number)\n.output a\n')
    for number in (1, 2):
        (tmp_path / "b.dl").write_text(f"a({number}).\n")
        program = dbsp.compile(tmp_path / "a.dl")
        if number == 1:
            run = program.start(checkpoint=tmp_path / "kept")
            assert run.log is not None
            run.log.snapshot()
            run.log.close()
        else:
            with pytest.raises(dbsp.CheckpointError):
                program.start(checkpoint=tmp_path / "kept")


def test_line_and_file_macros_and_once(tmp_path: Path) -> None:
    (tmp_path / "part.dl").write_text('.once\n__FILE__ __LINE__\n.include "part.dl"\n')
    main = tmp_path / "main.dl"
    main.write_text('#define AT __LINE__\n.include "part.dl"\n#include "part.dl"\n\nAT __other__\n')
    report = Report("main.dl", main.read_text())
    found = preprocess(main.read_text(), report, Sources(main))
    assert " ".join(map(str, found)) == '"part.dl" 2 5 __other__'
    assert report.diagnostics == ()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("1", True),
        ("0 /* no */ // more", False),
        ("NOTHING", False),
        ("A == 3 && B", True),
        ("defined A && defined(B) && !defined C", True),
        ("-7 / 2 == -3 && -7 % 2 == -1 && 7 / -2 == -3", True),
        ("1 + 2 * 3 == 7 && (1 + 2) * 3 == 9", True),
        ("1 << 4 == 16 && 0x1F == 31 && 010 == 8 && 0b11 == 3 && 5UL == 5", True),
        ("~0 == -1 && (6 & 3) == 2 && (6 | 3) == 7 && (6 ^ 3) == 5 && 6 >> 1 == 3", True),
        ("1 ? 0 : 1", False),
        ("0 ? 1 : 0 ? 1 : 2", True),
        ("1 || 1 / 0", True),
        ("0 && 1 / 0", False),
        ("A < 3 || A >= 4 || A != 3 || A > 3 || !(A <= 3)", False),
        ("RAM_DOMAIN_SIZE == 64", True),
        ("SELF == 1", True),
    ],
)
def test_conditions(condition: str, expected: bool) -> None:
    text = f"#define A 3\n#define B (A - 2)\n#define SELF SELF + 1\n#if {condition}\nyes\n#else\nno\n#endif\n"
    assert words(text) == ("yes" if expected else "no")


def test_the_first_true_condition_is_used() -> None:
    text = "#if A == 1\none\n#elif A == 2\ntwo\n#elif A >= 2\nthree\n#else\nfour\n#endif"
    assert [words(text, A=value) for value in "1234"] == ["one", "two", "three", "three"]
    assert words(text) == "four"
    assert words(f"#ifdef NO\n{text.replace('A == 1', '1 +')}\n#endif\nafter") == "after"


def test_too_long_conditions_are_an_error() -> None:
    doubling = (
        "".join(f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(60)) + "#define A60\n#if A0\n#endif\n"
    )
    chain = "".join(f"#define B{i} B{i + 1}\n" for i in range(2000)) + "#if B0\n#endif\n"
    deep = "#if " + "(" * 5000 + "\n#endif\n"
    for text in (doubling, chain, deep):
        with pytest.raises(dbsp.CompileError, match=r"the condition is (too long|nested too deeply)"):
            dbsp.compile(text)


SECRET = "the-secret(content)"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, `rules`, beside a secret file, with a symbolic link to it."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (tmp_path / "secret.dl").write_text(SECRET)
    (folder / "a.dl").write_text(".decl a(x: number)\n.output a\na(1).\n")
    (folder / "up.dl").write_text('#include "../secret.dl"\n')
    (folder / "link.dl").symlink_to(tmp_path / "secret.dl")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["a.dl", "missing.dl", "../secret.dl", "/etc/passwd", "link.dl", "up.dl"])
def test_a_text_includes_no_file_by_default(rules: Path, name: str) -> None:
    with pytest.raises(dbsp.CompileError) as refused:
        dbsp.compile(f'#include "{name}"\n')
    assert str(refused.value) == (
        f"<program>:1:1: error: file '{name}' is outside the folders that this program may use "
        f'[outside-folders]\n    #include "{name}"\n    {"^" * (len(name) + 11)}\n'
        '    hint: allow its folder, as in compile(text, folders=["rules"]) or --folder rules'
    )


def test_a_program_includes_files_of_the_allowed_folders(rules: Path) -> None:
    text = '#include "a.dl"\n'
    main = rules.parent / "main.dl"
    main.write_text('#include "rules/a.dl"\n')
    for program in (
        dbsp.compile(text, folders=["."]),
        dbsp.compile(text, folders=[rules.parent / "rules" / "absent" / ".."]),
        dbsp.compile(text, include=[rules]),
        dbsp.compile(main),
        dbsp.compile(main, folders=[rules]),
        dbsp.compile(str(main), folders=[rules.parent]),
    ):
        assert program.facts == {"a": [(1,)]}
    with pytest.raises(dbsp.CompileError, match=r"file 'missing.dl' not found.*\n.*\n.*\n.*searched in "):
        dbsp.compile('#include "missing.dl"\n', include=[rules])
    with pytest.raises(dbsp.CompileError, match=rf"file '{'x' * 5000}' not found"):
        dbsp.compile(f'#include "{"x" * 5000}"\n', folders=["."])


@pytest.mark.parametrize("name", ["../secret.dl", "link.dl", "up.dl"])
def test_no_content_of_a_file_outside_is_read(rules: Path, name: str) -> None:
    (rules / "main.dl").write_text(f'#include "{name}"\n')
    for program in (f'#include "{name}"\n', rules / "main.dl"):
        with pytest.raises(dbsp.CompileError) as refused:
            dbsp.compile(program, folders=[rules])
        assert [one.code for one in refused.value.diagnostics] == ["outside-folders"]
        assert SECRET not in str(refused.value)


def test_a_string_that_names_a_file_outside(rules: Path) -> None:
    outside = str(rules.parent / "secret.dl")
    for folders in ([], [rules]):
        with pytest.raises(dbsp.CompileError) as refused:
            dbsp.compile(outside, folders=folders)
        assert str(refused.value) == (
            f"{outside} is outside the folders that a program may use; add its folder to folders=, "
            "or pass a Path [outside-folders]"
        )
    with pytest.raises(dbsp.CompileError, match="syntax"):
        dbsp.compile(Path(outside), folders=[rules])  # the caller chose this file
    with pytest.raises(dbsp.errors.ArgumentError, match=r"^folders: expected a list of folders, got 'rules'"):
        dbsp.compile("", folders="rules")


def test_a_loop_of_symbolic_links(rules: Path) -> None:
    (rules / "loop.dl").symlink_to(rules / "loop.dl")
    with pytest.raises(dbsp.CompileError, match=r"file-not-found|outside-folders"):
        dbsp.compile('#include "loop.dl"\n', folders=[rules])
