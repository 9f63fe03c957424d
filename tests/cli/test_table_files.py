"""`dbsp run` with Parquet, CSV and NDJSON files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import dbsp
from dbsp.cli.commands import ConsoleCommands
from dbsp.io import unpack
from dbsp.io.change_script import read_change_script
from tests.cli.support import REACH, Command

EDGES = pa.table({"y": [2, 3], "x": [1, 2]})
PATHS = [(1, 2), (1, 3), (2, 3)]
FORMATS = ["parquet", "csv", "ndjson"]


def write(path: Path, table: pa.Table = EDGES) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def read(path: Path) -> list[tuple[object, ...]]:
    if path.suffix == ".parquet":
        rows = pa.parquet.read_table(path).to_pylist()
    elif path.suffix == ".csv":
        rows = pa.csv.read_csv(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [tuple(row.values()) for row in rows]


def program(folder: Path, source: str = "", target: str = "") -> str:
    text = REACH.replace(".input edge", f".input edge{source}").replace(
        ".output path", f".output path{target}"
    )
    (folder / "p.dl").write_text(text)
    return str(folder / "p.dl")


@pytest.mark.parametrize("format_", FORMATS)
def test_tables_in_and_out(tmp_path: Path, run: Command, format_: str) -> None:
    write(tmp_path / "in" / f"edge.{format_}")
    command = ["run", program(tmp_path, f"(IO={format_})", f"(IO={format_})"), "-F", f"{tmp_path}/in"]
    assert run(*command, "-D", f"{tmp_path}/out").code == 0
    assert read(tmp_path / "out" / f"path.{format_}") == PATHS
    printed = run(*command, "-D", "-")
    assert "1\t2\n1\t3\n2\t3\n" in printed.out


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_beside_a_missing_fact_file(tmp_path: Path, run: Command, format_: str) -> None:
    write(tmp_path / f"edge.{format_}")
    command = ["run", program(tmp_path), "-F", str(tmp_path), "-D", "-"]
    assert "1\t2\n1\t3\n2\t3\n" in run(*command).out
    (tmp_path / "edge.facts").write_text("7\t8\n")
    assert "7\t8\n" in run(*command).out
    (tmp_path / "edge.facts").unlink()
    write(tmp_path / "edge.jsonl")
    refused = run(*command)
    assert refused.code == 1
    assert f"relation 'edge': found several files: {tmp_path}/edge." in refused.err
    named = f'.input edge(IO={format_}, filename="edge.{format_}")'
    assert f"edge.jsonl; keep one of them, or name one as in {named}" in refused.err
    assert "[several-files]" in refused.err


def test_the_name_of_a_file_gives_its_format(tmp_path: Path, run: Command) -> None:
    for name in ("e.parquet", "e.ndjson"):
        write(tmp_path / name)
        result = run("run", program(tmp_path, f'(filename="{name}")'), "-F", str(tmp_path), "-D", "-")
        assert "1\t3\n" in result.out
    # Souffle writes lines with tabs to files named .csv.
    (tmp_path / "e.csv").write_text("1\t2\n")
    result = run("run", program(tmp_path, '(filename="e.csv")'), "-F", str(tmp_path), "-D", "-")
    assert "1\t2\n" in result.out


def test_results_beside_missing_facts_are_not_read(tmp_path: Path, run: Command) -> None:
    (tmp_path / "edge.csv").write_text("1\t2\n")
    result = run("run", program(tmp_path), "-F", str(tmp_path), "-D", "-")
    assert result.code == 1
    assert (
        "edge.facts: there is no such fact file (for relation 'edge'); edge.csv beside it has tabs"
        in result.err
    )
    assert 'write .input edge(filename="edge.csv") [file-not-found]' in result.err


ARROW_ADVICE = (
    "an Arrow file; read it in Python with PyArrow and pass the table to run.step, or write the table to a "
    "Parquet file and add IO=parquet to .input edge"
)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_an_arrow_file_is_refused_as_facts(tmp_path: Path, run: Command, compression: str) -> None:
    pa.feather.write_feather(EDGES, tmp_path / "e.arrow", compression=compression)
    result = run("run", program(tmp_path, '(filename="e.arrow")'), "-F", str(tmp_path), "-D", "-")
    expected = f"e.arrow: expected lines of text, got {ARROW_ADVICE} [unreadable-file]\n"
    assert (result.code, result.out) == (1, "")
    assert result.err == f"dbsp: error: {tmp_path}/{expected}"


def test_an_arrow_stream_is_refused_as_facts(tmp_path: Path, run: Command) -> None:
    with pa.ipc.new_stream(tmp_path / "edge.facts", EDGES.schema) as writer:
        writer.write_table(EDGES)
    result = run("run", program(tmp_path), "-F", str(tmp_path), "-D", "-")
    assert f"edge.facts: expected lines of text, got {ARROW_ADVICE} [unreadable-file]" in result.err


def test_a_parquet_file_is_refused_as_text(tmp_path: Path, run: Command) -> None:
    write(tmp_path / "edge.parquet")
    (tmp_path / "edge.parquet").rename(tmp_path / "edge.facts")
    result = run("run", program(tmp_path), "-F", str(tmp_path), "-D", "-")
    advice = "a Parquet file; add IO=parquet to .input edge [unreadable-file]"
    assert f"edge.facts: expected lines of text, got {advice}" in result.err


def test_an_arrow_file_beside_missing_facts_is_named(tmp_path: Path, run: Command) -> None:
    pa.feather.write_feather(EDGES, tmp_path / "edge.feather")
    result = run("run", program(tmp_path), "-F", str(tmp_path), "-D", "-")
    missing = "edge.facts: there is no such fact file (for relation 'edge'); edge.feather beside it is"
    assert f"{missing} {ARROW_ADVICE} [file-not-found]" in result.err


def test_an_arrow_file_is_refused_as_a_change_script(tmp_path: Path) -> None:
    pa.feather.write_feather(EDGES, tmp_path / "e.feather")
    with pytest.raises(dbsp.InputError, match=r"e.feather: expected lines of text, got an Arrow file; read"):
        read_change_script(tmp_path / "e.feather", {"edge": dbsp.Schema.of(x=int, y=int)})


def test_text_may_begin_as_an_arrow_or_parquet_file(tmp_path: Path, run: Command) -> None:
    (tmp_path / "p.dl").write_text(".decl r(x: symbol)\n.input r\n.output r\n")
    (tmp_path / "r.facts").write_text("PAR1\nARROW1\nPAR1")
    result = run("run", str(tmp_path / "p.dl"), "-F", str(tmp_path), "-D", "-")
    assert "ARROW1\nPAR1\n" in result.out


def test_folders_globs_and_several_places(tmp_path: Path, run: Command) -> None:
    write(tmp_path / "edge.parquet" / "x=1" / "a.parquet", EDGES.select(["y"]).slice(0, 1))
    write(tmp_path / "edge.parquet" / "x=2" / "a.parquet", EDGES.select(["y"]).slice(1, 1))
    command = ["-F", str(tmp_path), "-D", "-"]
    assert "1\t2\n1\t3\n2\t3\n" in run("run", program(tmp_path), *command).out
    write(tmp_path / "more1.csv", pa.table({"x": [3], "y": [4]}))
    write(tmp_path / "more2.csv", pa.table({"x": [5], "y": [6]}))
    (tmp_path / "rows.json").write_text("[[7, 8]]")
    (tmp_path / "rows.facts").write_text("8\t9\n")
    sources = '(IO=csv, filename="more*.csv")\n.input edge(IO=jsonfile, filename="rows.json")'
    sources += '\n.input edge(filename="rows.facts")'
    result = run("run", program(tmp_path, sources), *command)
    rows = [line for line in result.out.splitlines() if "\t" in line]
    assert rows[1:] == [
        "3\t4",
        "5\t6",
        "7\t8",
        "7\t9",
        "8\t9",
    ]


def test_parameters_of_csv(tmp_path: Path, run: Command) -> None:
    (tmp_path / "edge.csv").write_text("1;2\n")
    source = '(IO=csv, delimiter=";", headers=false)'
    target = '(IO=csv, delimiter="\\t", attributeNames="a\tb", compress=true)'
    assert run("run", program(tmp_path, source, target), "-F", str(tmp_path), "-D", str(tmp_path)).code == 0
    found = pa.csv.read_csv(tmp_path / "path.csv.gz", parse_options=pa.csv.ParseOptions(delimiter="\t"))
    assert found.to_pydict() == {"a": [1], "b": [2]}
    target = "(IO=csv, headers=false)"
    assert run("run", program(tmp_path, source, target), "-F", str(tmp_path), "-D", str(tmp_path)).code == 0
    assert (tmp_path / "path.csv").read_text() == "1,2\n"


def test_texts_and_floats_come_back(tmp_path: Path, run: Command) -> None:
    text = '.decl r(s: symbol, f: float)\n.output r(IO={0})\nr("a,\\"b\\"\\n", 1.5). r("é", -0.1).\n'
    again = ".decl r(s: symbol, f: float)\n.input r(IO={0})\n.output r(IO=jsonfile)\n"
    for format_ in FORMATS:
        (tmp_path / "w.dl").write_text(text.format(format_))
        (tmp_path / "r.dl").write_text(again.format(format_))
        assert run("run", f"{tmp_path}/w.dl", "-D", str(tmp_path)).code == 0
        assert run("run", f"{tmp_path}/r.dl", "-F", str(tmp_path), "-D", str(tmp_path)).code == 0
        assert json.loads((tmp_path / "r.json").read_text()) == [['a,"b"\n', 1.5], ["é", -0.1]]


@pytest.mark.parametrize("format_", FORMATS)
def test_names_of_other_columns(tmp_path: Path, run: Command, format_: str) -> None:
    write(tmp_path / "in" / f"edge.{format_}", EDGES.rename_columns(["a", "b"]))
    done = run("run", program(tmp_path), "-F", f"{tmp_path}/in")
    assert done.code == 1
    expected = (
        "expected the columns (x: number, y: number), got (a, b); a column of the file needs the name that"
    )
    assert expected in done.err
    hint = "; write .input edge(IO=csv, headers=false) if the first line has values"
    assert (hint in done.err) == (format_ == "csv")


def test_another_delimiter(tmp_path: Path, run: Command) -> None:
    (tmp_path / "edge.csv").write_text("x;y\n1;2\n")
    done = run("run", program(tmp_path), "-F", str(tmp_path))
    assert 'got (x;y); write .input edge(IO=csv, delimiter=";") [unknown-column]' in done.err
    parameters = '(IO=csv, delimiter=";")'
    assert "1\t2\n" in run("run", program(tmp_path, parameters), "-F", str(tmp_path), "-D", "-").out


@pytest.mark.parametrize("format_", FORMATS)
def test_wrong_tables(tmp_path: Path, run: Command, format_: str) -> None:
    command = ["run", program(tmp_path, f"(IO={format_})"), "-F", str(tmp_path), "-D", "-"]
    missing = run(*command)
    assert missing.code == 1 and f"edge.{format_}: there is no such file" in missing.err
    assert "[file-not-found]" in missing.err
    write(tmp_path / f"edge.{format_}", pa.table({"x": [1, 2], "z": [3, 4]}))
    wrong = run(*command)
    assert wrong.code == 1
    assert f"dbsp: error: relation 'edge', {tmp_path}/edge.{format_}: expected the columns" in wrong.err
    assert "missing: 'y'; unknown: 'z'" in wrong.err
    write(tmp_path / f"edge.{format_}", pa.table({"x": [1, 2], "y": [3, None]}))
    assert "row 2, column 'y': expected number, got no value [missing-value]" in run(*command).err


def test_the_range_of_a_column(tmp_path: Path, run: Command) -> None:
    (tmp_path / "p.dl").write_text(".decl r(x: unsigned)\n.input r(IO=csv)\n.output r\n")
    (tmp_path / "r.csv").write_text("x\n1\n-1\n")
    result = run("run", f"{tmp_path}/p.dl", "-F", str(tmp_path), "-D", "-")
    assert result.code == 1 and "relation 'r', column 'x': expected" in result.err and "got -1" in result.err
    for number in (2**63, -(2**64)):
        (tmp_path / "r.csv").write_text(f"x\n1\n{number}\n")
        result = run("run", f"{tmp_path}/p.dl", "-F", str(tmp_path), "-D", "-")
        expected = f"row 2, column 'x': expected an unsigned number (0 to 2^63-1), got '{number}' [value-out"
        assert result.code == 1 and expected in result.err


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("r.csv", "i,u,s,f\n1,1,a,1\nx,1,a,1\n", "row 2, column 'i': expected number, got 'x' [wrong-type]"),
        ("r.csv", "i,u,s,f\n1,-x,a,1\n", "column 'u': expected an unsigned number (0 to 2^63-1), got '-x'"),
        ("r.csv", f"i,u,s,f\n{2**63},1,a,1\n", "column 'i': expected a number from -2^63 to 2^63-1, got '92"),
        ("r.csv", "i,u,s,f\n1,,a,1\n", "column 'u': expected an unsigned number (0 to 2^63-1), got no value"),
        ("r.csv", "i,u,s\n", "expected the columns (i: number, u: Id, s: symbol, f: float), got (i, u, s)"),
        (
            "r.ndjson",
            '{"i":1,"u":1,"s":5,"f":1}',
            "column 's': expected symbol, got 5 of type number [wrong-ty",
        ),
        ("r.ndjson", '{"i":"a","u":1,"s":"a","f":1}', "column 'i': expected number, got 'a' of type symbol"),
        ("r.csv", "i,u,s,f,weight\n1,1,a,1,b\n", "column 'weight': expected number, got 'b' [invalid-w"),
        ("r.ndjson", '{"i":1,"u":1,"s":"a"}', "column 'f': expected float, got no value [missing-value]"),
    ],
)
def test_errors_have_the_types_of_the_program(
    tmp_path: Path, run: Command, file: str, data: str, message: str
) -> None:
    (tmp_path / "p.dl").write_text(
        ".type Id <: unsigned\n.decl r(i: number, u: Id, s: symbol, f: float)\n.input r\n.output r\n"
    )
    (tmp_path / file).write_text(data)
    result = run("run", f"{tmp_path}/p.dl", "-F", str(tmp_path), "-D", "-")
    assert result.code == 1 and message in result.err
    program = dbsp.compile(tmp_path / "p.dl")
    with pytest.raises(dbsp.DbspError, match=re.escape(message)):
        ConsoleCommands(program, program.start(), timed=False).handle(f"load {tmp_path}/{file}")


def test_records_are_refused(tmp_path: Path, run: Command) -> None:
    (tmp_path / "p.dl").write_text(
        ".type P = [a: number, b: number]\n.decl r(p: P)\n.output r(IO=parquet)\nr([1, 2]).\n"
    )
    result = run("run", f"{tmp_path}/p.dl", "-D", str(tmp_path))
    assert result.code == 1
    assert "relation 'r': column 'p' has type" in result.err
    assert "which parquet files do not support; use IO=file or IO=jsonfile [invalid-type]" in result.err


@pytest.mark.parametrize("format_", ["csv", "ndjson", "parquet"])
def test_a_relation_without_columns_is_not_lost(tmp_path: Path, run: Command, format_: str) -> None:
    (tmp_path / "p.dl").write_text(f".decl z()\n.output z(IO={format_})\nz().\n")
    result = run("run", f"{tmp_path}/p.dl", "-D", str(tmp_path))
    assert result.code == 1
    assert f"relation 'z': the relation has no columns, which {format_} files do not" in result.err


def test_files_outside_of_the_allowed_folders(tmp_path: Path, run: Command) -> None:
    write(tmp_path / "outside" / "a.csv")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.csv").symlink_to(tmp_path / "outside" / "a.csv")
    command = ["-F", f"{tmp_path}/inside", "-D", "-", "--folder", f"{tmp_path}/inside"]
    (tmp_path / "inside" / "p.dl").write_text(
        REACH.replace(".input edge", '.input edge(IO=csv, filename="*.csv")')
    )
    result = run("run", f"{tmp_path}/inside/p.dl", *command)
    assert result.code == 1 and "inside/a.csv: .input edge uses a file outside the folders" in result.err


def test_a_file_that_grows_too_much(tmp_path: Path, run: Command) -> None:
    write(tmp_path / "edge.parquet", pa.table({"x": pa.repeat(1, 10**6), "y": pa.repeat(1, 10**6)}))
    command = ["run", program(tmp_path), "-F", str(tmp_path), "-D", "-"]
    try:
        result = run(*command, "--max-unpacked", "1M")
    finally:
        unpack.set_limit(None)
    assert result.code == 1
    assert "decompress it, or allow more with --max-unpacked SIZE [unpacked-too-large]" in result.err


def test_the_plans_of_tables(tmp_path: Path, run: Command) -> None:
    write(tmp_path / "edge.parquet")
    report = run("explain", program(tmp_path), "-F", str(tmp_path))
    assert report.code == 0, report.err
