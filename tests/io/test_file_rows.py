"""`read_parquet`, `read_csv` and `read_ndjson`: rows of files as changes."""

import datetime as dt
import gzip
import json
import sys
import weakref
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, DbspError, InputError, Run, SetupError, ZSet
from dbsp.io import csv_rows, ndjson_rows, parquet_rows, reading_progress
from dbsp.io.file_rows import FileRows

ROWS = [(1, "a", 1.5), (2, "b", 2.5), (3, 'c "d", e\n', -1.0)]
TABLE = pa.table({"s": [row[1] for row in ROWS], "f": [row[2] for row in ROWS], "x": [1, 2, 3]})


def write_parquet(path: Path, table: pa.Table = TABLE) -> None:
    pa.parquet.write_table(table, path)


def write_csv(path: Path, table: pa.Table = TABLE) -> None:
    pa.csv.write_csv(table, path)


def write_ndjson(path: Path, table: pa.Table = TABLE) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


Writer = Callable[..., None]
FORMATS: dict[str, tuple[Writer, Callable[..., FileRows]]] = {
    "parquet": (write_parquet, dbsp.read_parquet),
    "csv": (write_csv, dbsp.read_csv),
    "ndjson": (write_ndjson, dbsp.read_ndjson),
}


@pytest.fixture(params=FORMATS)
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(**columns: Any) -> Run:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", **(columns or {"x": int, "s": str, "f": float})))
    return circuit.start()


def rows_of(source: Any, **columns: Any) -> list[tuple[Any, ...]]:
    return started(**columns).step({"a": source})["o"].rows()


def refused(source: Any, message: str, **columns: Any) -> DbspError:
    run = started(**columns)
    with pytest.raises(DbspError, match=message) as raised:
        run.step({"a": source})
    assert not run.step()["o"]
    return raised.value


def test_a_file_is_a_change(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / f"a.{ending}")
    source = read(tmp_path / f"a.{ending}")
    assert repr(source) == f"<rows of {tmp_path}/a.{ending}>"
    assert rows_of(source) == ROWS
    assert rows_of(source) == ROWS  # a second read starts again
    run = started()
    run.input("a").insert(source)
    assert run.step()["o"].rows() == ROWS
    program = dbsp.compile(".decl a(x: number, s: symbol, f: float)\n.input a\n.output a\n")
    assert program.start({"a": source}).view("a").rows() == ROWS


def test_columns_are_chosen_and_renamed(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / "file")
    assert rows_of(read(tmp_path / "file", columns=["x"]), x=int) == [(1,), (2,), (3,)]
    renamed = read(tmp_path / "file", columns={"f": "price", "x": "id"})
    assert rows_of(renamed, id=int, price=float) == [(1, 1.5), (2, 2.5), (3, -1.0)]
    refused(
        read(tmp_path / "file", columns=["x", "ss"]),
        r"relation 'a', .*file: unknown column 'ss'; did you mean 's'\? The columns are \(",
    )
    refused(read(tmp_path / "file"), r"file: expected the columns \(x: int\), got .*; unknown: ", x=int)
    refused(read(tmp_path / "file", columns=["x"]), r"got \(x\); missing: 'y'", x=int, y=int)
    for wrong in ("x", 5, [5]):
        with pytest.raises(DbspError, match="columns: expected "):
            read(tmp_path / "file", columns=wrong)


def test_many_files(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    for year, place in ((2023, 0), (2024, 1), (2024, 2)):
        folder = tmp_path / "sales" / f"year={year}" / "shop=north%20end"
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"{place}.{ending}", TABLE.slice(place, 1))
    (tmp_path / "sales" / "_hidden").mkdir()
    write(tmp_path / "sales" / "_hidden" / f"a.{ending}")
    (tmp_path / "sales" / "notes.txt").write_text("not data")
    columns = {"x": int, "year": int, "shop": str}
    expected = [(1, 2023, "north end"), (2, 2024, "north end"), (3, 2024, "north end")]
    chosen = ["x", "year", "shop"]
    assert rows_of(read(tmp_path / "sales", columns=chosen), **columns) == expected
    assert rows_of(read(tmp_path / "sales"), x=int, s=str, f=float, year=str, shop=str)[0] == (
        *ROWS[0],
        "2023",
        "north end",
    )
    assert rows_of(read(f"{tmp_path}/sales/**/*.{ending}", columns=["x"]), x=int)[3:] == [(3,)] * 0
    assert rows_of(read(f"{tmp_path}/sales/year=2024/*/[0-1].{ending}", columns=["x"]), x=int) == [(2,)]
    assert rows_of(read(f"{tmp_path}/sales/year=2024/*/[!1].{ending}", columns=["x"]), x=int) == [(3,)]
    assert rows_of(read(f"{tmp_path}/sales/year=????/*/?.{ending}", columns=chosen), **columns) == expected
    several = read([f"{tmp_path}/sales/year=2023/", Path(f"{tmp_path}/sales/year=2024")], columns=["x"])
    assert repr(several) == "<rows of 3 files>"
    assert rows_of(several, x=int) == [(1,), (2,), (3,)]
    refused(
        read(tmp_path / "sales", columns=chosen),
        r"column 'shop': expected int, got 'north end' from the folder",
        x=int,
        year=int,
        shop=int,
    )


def test_files_without_value_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "day=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    write_parquet(folder / "a.parquet", TABLE.slice(0, 1))
    (tmp_path / "day=2024-01-31").mkdir()
    write_parquet(tmp_path / "day=2024-01-31" / "a.parquet", TABLE.slice(1, 1))
    source = dbsp.read_parquet(tmp_path, columns=["x", "day"])
    assert rows_of(source, x=int, day=dt.date | None) == [(1, None), (2, dt.date(2024, 1, 31))]
    (tmp_path / "at" / "t=10:30").mkdir(parents=True)
    write_parquet(tmp_path / "at" / "t=10:30" / "a.parquet", TABLE.slice(0, 1))
    source = dbsp.read_parquet(tmp_path / "at", columns=["t"])
    assert rows_of(source, t=dt.time) == [(dt.time(10, 30),)]


@pytest.mark.parametrize("packed", ["gzip", "zstd", "bz2", "lz4"])
def test_compressed_files(tmp_path: Path, packed: str) -> None:
    for ending in ("csv", "ndjson"):
        write, read = FORMATS[ending]
        write(tmp_path / "plain")
        data = (tmp_path / "plain").read_bytes()
        with pa.CompressedOutputStream(str(tmp_path / "packed"), packed) as file:
            file.write(data)
        assert rows_of(read(tmp_path / "packed")) == ROWS
        refused(
            read(tmp_path / "packed", max_unpacked=len(data) - 1),
            r"packed: expected at most \d+ bytes after decompression, got more from .*max_unpacked=SIZE",
        )
        whole = (tmp_path / "packed").read_bytes()
        (tmp_path / "packed").write_bytes(whole[: len(whole) // 2])
        refused(read(tmp_path / "packed"), r"packed: cannot be read: .* \[unreadable-file\]")


@pytest.mark.parametrize("limit", [1e6, True, "1M", -1])
def test_the_limit_of_unpacked_bytes_is_a_number_of_them(tmp_path: Path, limit: Any) -> None:
    for ending, (write, read) in FORMATS.items():
        write(tmp_path / f"a.{ending}")
        with pytest.raises(dbsp.ArgumentError, match="max_unpacked: expected a number of bytes, got"):
            read(tmp_path / f"a.{ending}", max_unpacked=limit)


def test_a_small_parquet_file_of_many_rows_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", pa.table({"x": pa.repeat(1, 20_000_000)}))
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    refused(
        dbsp.read_parquet(tmp_path / "a.parquet", max_unpacked=10**8), r"a.parquet: expected at most", x=int
    )


def test_file_systems(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / f"a.{ending}")
    data = (tmp_path / f"a.{ending}").read_bytes()
    assert rows_of(read((tmp_path / f"a.{ending}").as_uri())) == ROWS
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/dbsp-test/{ending}/k=1/a.{ending}", data)
    assert rows_of(read(f"memory://dbsp-test/{ending}/k=1/a.{ending}")) == ROWS
    assert len(rows_of(read(f"memory://dbsp-test/{ending}"), x=int, s=str, f=float, k=int)) == 3
    assert rows_of(read(f"memory://dbsp-test/{ending}/*/*.{ending}", columns=["x"]), x=int)[0] == (1,)
    assert rows_of(read(f"/dbsp-test/{ending}/k=1/a.{ending}", filesystem=memory)) == ROWS
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert rows_of(read(f"a.{ending}", filesystem=below)) == ROWS
    with pytest.raises(InputError, match=r"memory://dbsp-test/none: there is no such file"):
        read("memory://dbsp-test/none")


def test_a_url_of_an_unknown_protocol() -> None:
    with pytest.raises(InputError, match="unknown://x: the URL cannot be opened: Protocol not known"):
        dbsp.read_csv("unknown://x")


def test_a_url_without_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise ImportError("HTTPFileSystem requires requests")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(SetupError, match=r"the URL https://x.org/a.csv needs a package: HTTPFileSystem req"):
        dbsp.read_csv("https://x.org/a.csv")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(SetupError, match=r"the URL https://x.org/a.csv needs the package fsspec.*pip"):
        dbsp.read_csv("https://x.org/a.csv")


def test_a_file_system_that_fails(tmp_path: Path) -> None:
    class Locked(LocalFileSystem):
        def info(self, path: str, **options: Any) -> dict[str, Any]:
            raise PermissionError("the folder is locked")

    with pytest.raises(InputError, match=r"a.csv: cannot be read: the folder is locked \[unreadable-file\]"):
        dbsp.read_csv("a.csv", filesystem=Locked())


def test_folders_give_names_only_to_files_with_names(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "year=2024" / "a.csv").write_text("1,a\n")
    refused(
        dbsp.read_csv(tmp_path, header=False),
        r"a.csv: columns= and folders named key=value need names of columns; pass header=\[",
        x=int,
        s=str,
    )
    named = dbsp.read_csv(tmp_path, header=["x", "s"])
    assert rows_of(named, x=int, s=str, year=int) == [(1, "a", 2024)]


def test_missing_files(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / f"sales.{ending}")
    with pytest.raises(InputError, match=rf"sale.{ending}: there is no such file; did you mean .*sales"):
        read(tmp_path / f"sale.{ending}")
    with pytest.raises(InputError, match=r"the folder .*other does not exist \[file-not-found\]"):
        read(tmp_path / "other" / "a")
    with pytest.raises(InputError, match=r"none\*: no file matches this pattern \[file-not-found\]"):
        read(f"{tmp_path}/none*")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=rf"empty: the folder has no files named \*\.{ending}"):
        read(tmp_path / "empty")
    for wrong in (5, [5]):
        with pytest.raises(DbspError, match="source: expected a path, a URL or a list of them, got"):
            read(wrong)
    source = read(tmp_path / f"sales.{ending}")
    (tmp_path / f"sales.{ending}").unlink()
    refused(source, rf"relation 'a', .*sales.{ending}: cannot be read|cannot be read as")


def test_empty_files(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / "a", TABLE.slice(0, 0))
    assert rows_of(read(tmp_path / "a")) == []
    if ending != "ndjson":  # an empty NDJSON file has no names
        refused(read(tmp_path / "a"), r"missing: 'y'", x=int, y=int)


@pytest.mark.parametrize("bulk", [True, False])
def test_a_wrong_value_names_its_row(
    tmp_path: Path, ending: str, bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is in a later chunk; nothing is applied."""
    monkeypatch.setattr(csv_rows, "_BLOCK", 64)
    monkeypatch.setattr(ndjson_rows, "_BLOCK", 64)
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 7)
    write, read = FORMATS[ending]
    values = [str(number) for number in range(100)]
    values[76] = "abc"
    table = pa.table({"x": values if bulk else [None if v == "abc" else int(v) for v in values]})
    write(tmp_path / "a", table)
    if not bulk:
        refused(read(tmp_path / "a"), r"relation 'a', .*a: row 77, column 'x': expected int, got None", x=int)
        assert len(rows_of(read(tmp_path / "a"), x=int | None)) == 100
    elif ending == "csv":
        refused(read(tmp_path / "a"), r"a: row 77, column 'x': expected int, got 'abc' \[wrong-type\]", x=int)
    else:
        refused(read(tmp_path / "a"), r"a: row 1, column 'x': expected int, got '0' of type str", x=int)


@pytest.mark.parametrize("text", ["x,s", "\ufeffx,s", "x,s\r\n", '"x","s"'])
def test_a_csv_file_that_has_only_names(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    for data in (text.encode(), gzip.compress(text.encode())):
        path.write_bytes(data)
        assert rows_of(dbsp.read_csv(path), x=int, s=str) == []
        refused(dbsp.read_csv(path), r"missing: 'y'; unknown: 's'", x=int, y=str)


CSV: list[tuple[str, str]] = [
    ("x,s\n1,a\n1\n", r"row 2: expected 2 columns, got 1: 1 \[invalid-line\]"),
    (
        'x,s\n1,a\n2,"b\n3,c\n',
        r"row 2: a quotation mark is not closed until the end of the file \[invalid-lin",
    ),
    ('x,s\n1,"a""', r"row 1: a quotation mark is not closed until the end of the file \[invalid-line\]"),
    ("y,s\n1,a\n", r"expected the columns \(x: int, s: str\), got \(y, s\); missing: 'x'; unknown: 'y'"),
    ("", r"expected a line with the names of the columns, got an empty file \[invalid-line\]"),
    ("\n", r"expected a line with the names of the columns at the beginning \[invalid-line\]"),
    ('"x,s', r"expected a line with the names of the columns at the beginning \[invalid-line\]"),
    ("x,x\n1,2\n", r"column 'x' occurs twice in \(x, x\)"),
    ("x,s\n99999999999999999999,a\n", r"row 1, column 'x': expected an int from .*, got '999999999999999"),
    ("x\ts\n1\ta\n", r".*got \(x\ts\); pass the delimiter of the file, delimiter='\\t' \[unknown-column"),
    ("x;s;t\n1;a;b\n", r".*got \(x;s;t\); pass the delimiter of the file, delimiter=';'"),
    ("x,x\n1,a\n", r"column 'x' occurs twice in \(x, x\); rename one of the two \[duplicate-column\]"),
    (
        "1,a\n2,b\n",
        r"expected the columns \(x: int, s: str\), got \(1, a\); to rename them, pass "
        r"columns=\{'1': 'x', 'a': 's'\}, or header=False if the first line has values \[unknown-column\]",
    ),
    ("x,s,weight\n1,a,2\n2,b,x\n", r"row 2, column 'weight': expected int, got 'x' \[invalid-weight\]"),
    ("x,s,weight\n1,a,1.5\n", r"row 1, column 'weight': expected int, got '1.5' \[invalid-weight\]"),
    ("x,s\n,a\n", r"row 1, column 'x': expected int, got None"),
]


def test_names_of_csv_columns_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("x,größe\n1,a\n".encode("latin1"))
    rows = dbsp.read_csv(tmp_path / "a.csv")
    message = r"a\.csv: the names of the columns: expected UTF-8 text; or pass the encoding of the file"
    refused(rows, message, x=int, s=str)
    rows.relation = "a"  # as `.input`, which has no parameter for it
    refused(rows, r"the columns: expected UTF-8 text; convert the file to UTF-8 \[inval", x=int, s=str)


@pytest.mark.parametrize("number", range(len(CSV)))
def test_wrong_csv(tmp_path: Path, number: int) -> None:
    text, message = CSV[number]
    (tmp_path / "a.csv").write_text(text)
    refused(dbsp.read_csv(tmp_path / "a.csv"), r"relation 'a', .*a\.csv: " + message, x=int, s=str)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('x,s\n1,5" wide\n2,b\n', [(1, '5" wide'), (2, "b")]),  # no field begins with this mark
        ('x,s\r\n1,"a\r\n"\r\n2,c"\r\n', [(1, "a\r\n"), (2, 'c"')]),
        ('x,s\n1,"a"b"\n2,c\n', [(1, 'ab"'), (2, "c")]),
    ],
)
def test_an_odd_number_of_quotation_marks(tmp_path: Path, text: str, rows: list[Any]) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(text.encode())
    circuit = Circuit("odd")
    circuit.output("out", circuit.input("a", x=int, s=str))
    assert circuit.start().step({"a": dbsp.read_csv(path)})["out"].rows() == rows


def test_no_thread_holds_a_csv_file_after_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # At the exit of the interpreter, a thread of PyArrow that releases an object of Python aborts
    # the process.
    sources: list[weakref.ref[Any]] = []
    wrapped = pa.PythonFile

    def python_file(source: Any, **options: Any) -> Any:
        sources.append(weakref.ref(source))
        return wrapped(source, **options)

    monkeypatch.setattr(pa, "PythonFile", python_file)
    path = tmp_path / "a.csv"
    for text, message in (
        ("x,s,f\n1,a,NA\n", "row 1, column 'f': expected float, got 'NA'"),
        ("x,s,f\n1,a\n", "row 1: expected 3 columns, got 2: 1,a"),
        ("", "expected a line with the names of the columns"),
    ):
        path.write_text(text)
        refused(dbsp.read_csv(path), message, x=int, s=str, f=float)
    assert [source() for source in sources] == [None] * len(sources) != []


def test_decimals_in_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the row, also in a later chunk and with a column renamed."""
    monkeypatch.setattr(csv_rows, "_BLOCK", 64)
    path = tmp_path / "a.csv"
    price = "decimal(18, 2)"
    path.write_text("price\n" + "1.50\n" * 300 + "1.505\n")
    source = dbsp.read_csv(path, columns={"price": "p"})
    refused(source, r"row 301, column 'price': expected decimal\(18, 2\), got '1.505'; round it", p=price)
    for scale, text in ((6, "123456789012345678"), (2, "-12345678901234567.5"), (1, "9" * 30)):
        path.write_text(f"p\n1.5\n{text}\n")
        refused(dbsp.read_csv(path), r"row 2, column 'p': expected .*decimal", p=f"decimal(18, {scale})")
    path.write_text("p,q\n,1\n9999999999999999.99,1\n-9999999999999999.99,1\n")
    most = Decimal("9999999999999999.99")
    assert rows_of(dbsp.read_csv(path), p=f"{price}?", q=int) == [(None, 1), (-most, 1), (most, 1)]
    path.write_text("p\n1.5x\n")
    refused(dbsp.read_csv(path), r"row 1, column 'p': expected decimal\(18, 2\), got '1.5x'", p=price)


def test_a_renamed_column_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,change\n1,2\n2,-1\n")
    source = dbsp.read_csv(path, columns={"x": "x", "change": "weight"})
    assert started(x=int).step({"a": source})["o"].to_dict() == {(1,): 2, (2,): -1}
    path.write_text("x,change\n1,2\n2,y\n")
    refused(source, r"row 2, column 'change': expected int, got 'y' \[invalid-weight\]", x=int)


def test_names_of_no_column_fit(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / "a", pa.table({"p": [1], "q": ["a"]}))
    refused(
        read(tmp_path / "a"),
        r"relation 'a', .*a: expected the columns \(x: int, s: str\), got \(p, q\); to rename them, pass "
        r"columns=\{'p': 'x', 'q': 's'\}",
        x=int,
        s=str,
    )


def test_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be named like a glob; `~` is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a[1].csv").write_text("x\n1\n")
    assert rows_of(dbsp.read_csv(tmp_path / "a[1].csv"), x=int) == [(1,)]
    assert rows_of(dbsp.read_csv("~/a*.csv"), x=int) == [(1,)]


def test_options_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    def rows(text: str | bytes, relation: dict[str, Any], **options: Any) -> list[tuple[Any, ...]]:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return rows_of(dbsp.read_csv(path, **options), **relation)

    two = {"x": int, "s": str}
    assert rows("s;x\n007;1\n", two, delimiter=";") == [(1, "007")]
    assert rows("1,a\n2,b\n", two, header=False) == [(1, "a"), (2, "b")]
    assert rows("a,1\n", two, header=["s", "x"]) == [(1, "a")]
    assert rows("k,1\n", {"x": int}, header=["s", "n"], columns={"n": "x"}) == [(1,)]
    assert rows('s,x\n"a,b",1\n', two) == [(1, "a,b")]
    assert rows("s,x\n'a,b',1\n", two, quote="'") == [(1, "a,b")]
    assert rows('s,x\n"a,1\n', two, quote=None) == [(1, '"a')]
    assert rows("s,x\nÿ,1\n".encode("latin1"), two, encoding="latin1") == [(1, "ÿ")]
    optional = {"x": int | None, "s": str | None}
    assert rows("x,s\n,\n1,NA\n", optional) == [(None, None), (1, "NA")]
    assert rows("x,s\nNA,\n1,NA\n", optional, null_values=["NA"]) == [(None, ""), (1, None)]
    assert rows("s,x\n,1\n", two) == [(1, "")]
    assert rows("s\na\n\nb\n", {"s": str}) == [("",), ("a",), ("b",)]
    assert rows("x,s\r\n1,a\r\n\r\n2,b", two) == [(1, "a"), (2, "b")]
    many = {"b": bool, "d": dt.date, "t": dt.datetime, "f": float}
    assert rows(
        "b,d,t,f\ntrue,2024-01-31,2024-01-31 10:00:00,1\n0,2024-02-01,2024-02-01T10:00:00.5,nan\n", many
    )[1][:3] == (True, dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 10))
    path.write_bytes(b"s,x\n\xff,1\n")
    refused(dbsp.read_csv(path), r"row 1, column 's': expected UTF-8 text; or pass the enc", x=int, s=str)
    path.write_bytes(b"1,a,3\n")
    refused(dbsp.read_csv(path, header=False), r"row 1: expected 2 columns, got 3: 1,a,3", x=int, s=str)
    for options, message in (
        ({"delimiter": ";;"}, "delimiter: expected one ASCII character, got ';;'"),
        ({"delimiter": "é"}, "delimiter: expected one ASCII character, got 'é'"),
        ({"delimiter": None}, "delimiter: expected one ASCII character, got None"),
        ({"quote": 5}, "quote: expected one ASCII character, got 5"),
        ({"null_values": "NA"}, "null_values: expected a list of texts, got 'NA'"),
        ({"null_values": [5]}, r"null_values: expected a list of texts, got \[5\]"),
        ({"header": ["\ud800"]}, "header: expected True, False or a list of names, got "),
        ({"header": []}, r"header: expected True, False or a list of names, got \[\]"),
        ({"encoding": "foo"}, "encoding: expected a text encoding, such as 'latin1', got 'foo'"),
        ({"encoding": "base64"}, "encoding: expected a text encoding, such as 'latin1', got 'base64'"),
        ({"encoding": "punycode"}, "encoding: expected a text encoding, such as 'latin1', got 'puny"),
        ({"encoding": None}, "encoding: expected a text encoding, such as 'latin1', got None"),
        ({"filesystem": 5}, "filesystem: expected a file system of PyArrow or fsspec, got 5"),
        ({"header": "x"}, "header: expected True, False or a list of names, got 'x'"),
        ({"header": False, "columns": ["x"]}, r"columns= needs names of columns; pass them as header=\["),
    ):
        with pytest.raises(DbspError, match=message):
            dbsp.read_csv(path, **options)


@pytest.mark.parametrize("value", [[1], {"a": 1}, [{"a": "b"}]])
def test_parquet_with_nested_values_in_a_column_of_texts(tmp_path: Path, value: Any) -> None:
    write_parquet(tmp_path / "a.parquet", pa.table({"s": [value]}))
    refused(dbsp.read_parquet(tmp_path / "a.parquet"), "row 1, column 's': expected str, got ", s=str)


def test_a_csv_file_without_the_mark_of_utf16(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    source = dbsp.read_csv(tmp_path / "a.csv", encoding="utf16")
    refused(source, r"a\.csv: expected text in utf16: .* \[invalid-encoding\]", x=int)


def test_a_csv_file_in_another_encoding_than_the_given_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x,s\n1,\xff\n")
    source = dbsp.read_csv(tmp_path / "a.csv", encoding="ascii")
    refused(source, r"a\.csv: expected text in ascii: .* byte 0xff .* \[invalid-encoding\]", x=int, s=str)


@pytest.mark.parametrize("name", ["a\0b.csv", "\ud800.csv"])
def test_names_that_no_file_has(tmp_path: Path, ending: str, name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read: .* \[unreadable-file\]"):
        FORMATS[ending][1](tmp_path / name)


def test_parquet_with_text_that_is_not_utf8(tmp_path: Path) -> None:
    offsets = pa.py_buffer(bytes(4) + b"\1\0\0\0\2\0\0\0")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff")])
    write_parquet(tmp_path / "a.parquet", pa.table({"s": texts}))
    refused(dbsp.read_parquet(tmp_path / "a.parquet"), "column 's': expected UTF-8 text", s=str)
    refused(pa.table({"s": texts}), r"column 's': expected UTF-8 text \[invalid-encoding\]", s=str)


NDJSON: list[tuple[bytes, str]] = [
    (b'{"x":1,"s":"a"}\n\n{"x":\n', r"row 2: invalid JSON: Expecting value.* \[invalid-json\]"),
    (b'{"x":1,"s":"a"}\n[1]\n', r"row 2: expected a JSON object, got \[1\] \[invalid-json\]"),
    (b'null\n{"x":1,"s":"a"}\n', r"row 1: expected a JSON object, got None \[invalid-json\]"),
    (b'{"x":1,"s":"a"}\n \tnull', r"row 2: expected a JSON object, got None \[invalid-json\]"),
    (b'{"x":1.5,"s":"a"}\n', r"row 1, column 'x': expected int, got 1.5 of type float"),
    (b'{"x":1,"s":"a"}\n{"x":"2","s":"a"}\n', r"row 2, column 'x': expected int, got '2' of type str"),
    (b'{"x":1,"s":"a","z":1}\n', r".*got \(x, s, z\); unknown: 'z'"),
    (b'{"x":1}\n', r"row 1, column 's': expected str, got None"),
    (b'{"x":1,"s":"\xff"}\n', r"row 1: expected UTF-8 text \[invalid-encoding\]"),
    (b'{"x":9223372036854775808,"s":"a"}\n', r"row 1, column 'x': expected an int from .*, got 92233720"),
    (b"[" * 100_000, r"row 1: invalid JSON: .*"),
    (b'{"x":1,"s":"a"}\n{"x":1,"x":2,"s":"a"}\n', r"row 2: member 'x' occurs twice .* \[invalid-json\]"),
    (b'{"x":1,"s":null,"\\u0073":"a"}\n', r"row 1: member 's' occurs twice in an object"),
    (b'{"x":1,"s":"a","t":[{"u":1,"u":1}]}\n', r"row 1: member 'u' occurs twice in an object"),
    (b'{"x":%s,"s":"a"}\n' % (b"9" * 5000), r"row 1: invalid JSON: a number has too many digits \["),
]


@pytest.mark.parametrize("number", range(len(NDJSON)))
def test_wrong_ndjson(tmp_path: Path, number: int) -> None:
    data, message = NDJSON[number]
    (tmp_path / "a.ndjson").write_bytes(data)
    refused(dbsp.read_ndjson(tmp_path / "a.ndjson"), r"relation 'a', .*a\.ndjson: " + message, x=int, s=str)


TYPED = {
    "d": "decimal(18, 2)",
    "day": dt.date,
    "t": dt.time,
    "u": dt.datetime,
    "z": "timestamptz(Europe/Rome)",
    "b": bytes,
    "l": "list[int]",
    "s": "{a: int, b: str}",
}


def test_types_in_ndjson(tmp_path: Path) -> None:
    """The bulk parser and the reader by line accept the same texts."""
    zone = dt.timezone(dt.timedelta(hours=2))
    texts: dict[str, Any] = {
        "d": "1.50",
        "day": "2024-01-31",
        "t": "10:30:00",
        "u": "2024-01-31T10:00:00",
        "z": "2024-01-31T10:00:00+02:00",
        "b": "ab",
        "l": [1, 2],
        "s": {"a": 1, "b": "x"},
    }
    values = [
        Decimal("1.50"),
        dt.date(2024, 1, 31),
        dt.time(10, 30),
        dt.datetime(2024, 1, 31, 10),
        dt.datetime(2024, 1, 31, 10, tzinfo=zone),
        b"ab",
        [1, 2],
        {"a": 1, "b": "x"},
    ]
    expected = ZSet([tuple(values)], TYPED)
    path = tmp_path / "a.ndjson"
    path.write_text(json.dumps(texts) + "\n")
    assert started(**TYPED).step({"a": dbsp.read_ndjson(path)})["o"] == expected
    path.write_text(json.dumps(texts | {"d": 1.5}) + "\n")
    assert started(**TYPED).step({"a": dbsp.read_ndjson(path)})["o"] == expected
    # One wrong line makes PyArrow refuse the block; the error must be that of this line.
    for name, wrong in (("d", "abc"), ("day", "2024-02-31"), ("t", "25:00:00"), ("u", "now"), ("z", "now")):
        path.write_text(json.dumps(texts) + "\n" + json.dumps(texts | {name: wrong}) + "\n")
        refused(dbsp.read_ndjson(path), rf"row 2, column '{name}': expected .*, got '{wrong}'", **TYPED)


def test_a_large_file_that_is_read_line_by_line_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndjson_rows, "_BLOCK", 64)
    monkeypatch.setattr(ndjson_rows, "_LARGE", 20)
    path = tmp_path / "a.ndjson"
    path.write_text("".join(f'{{"x": {i}, "o": {i if i % 2 else "true"}}}\n' for i in range(20)))
    with pytest.warns(
        UserWarning, match=r"a\.ndjson: reading line by line, which is 20 times slower"
    ) as seen:
        assert [x for x, _ in rows_of(dbsp.read_ndjson(path), x=int, o=object)] == list(range(20))
    assert len(seen) == 1


def test_types_in_parquet(tmp_path: Path) -> None:
    row = (Decimal("1.50"), dt.date(2024, 1, 31), dt.time(10, 30), dt.datetime(2024, 1, 31, 10))
    expected = ZSet([(*row, dt.datetime(2024, 1, 31, tzinfo=dt.UTC), b"a", [1], {"a": 1, "b": "x"})], TYPED)
    write_parquet(tmp_path / "a", pa.table(expected))
    assert started(**TYPED).step({"a": dbsp.read_parquet(tmp_path / "a")})["o"] == expected


def test_files_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PAR1 but nothing more")
    refused(dbsp.read_parquet(tmp_path / "a"), r"a: cannot be read as Parquet: .* \[unreadable-file\]")
    write_parquet(tmp_path / "b")
    refused(dbsp.read_csv(tmp_path / "b"), r"relation 'a', .*b: ")
    refused(dbsp.read_ndjson(tmp_path / "b"), r"relation 'a', .*b: row 1: expected UTF-8 text|invalid JSON")


def test_columns_of_weights(tmp_path: Path, ending: str) -> None:
    write, read = FORMATS[ending]
    delta = ZSet({(1, "a"): 2, (2, "b"): -1}, {"x": int, "s": str})
    write(tmp_path / "a", pa.table(delta))
    assert started(x=int, s=str).step({"a": read(tmp_path / "a")})["o"] == delta


def test_files_are_read_by_chunks(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "_BLOCK", 4096)
    monkeypatch.setattr(ndjson_rows, "_BLOCK", 4096)
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 1000)
    write, read = FORMATS[ending]
    write(tmp_path / "a", pa.table({"x": range(10_000), "s": [f"n{i % 7}" for i in range(10_000)]}))
    source = read(tmp_path / "a")
    seen: list[int] = []
    source.watcher = seen.append
    sizes = [chunk.rows for chunk in source.chunks(started(x=int, s=str).inputs["a"])]
    assert sum(sizes) == 10_000 and max(sizes) <= 1000
    assert sum(seen) == source.size == (tmp_path / "a").stat().st_size
    assert rows_of(source, x=int, s=str) == [(i, f"n{i % 7}") for i in range(10_000)]


def test_a_long_read_shows_a_bar(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = FORMATS[ending]
    write(tmp_path / "a")
    shown: list[Any] = []

    class Bar:
        def __init__(self, *columns: Any, **options: Any) -> None: ...

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *args: object) -> None:
            shown.append("closed")

        def add_task(self, description: str, total: int) -> int:
            shown.append((description, total))
            return 0

        def update(self, task: int, completed: int) -> None:
            shown.append(completed)

    monkeypatch.setattr("rich.progress.Progress", Bar)
    rows_of(read(tmp_path / "a"))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    rows_of(read(tmp_path / "a"))
    assert not shown  # no terminal, then a read of less than a second
    monkeypatch.setattr(reading_progress, "_QUIET_SECONDS", -1)
    rows_of(read(tmp_path / "a"))
    size = (tmp_path / "a").stat().st_size
    assert shown[0] == (f"reading {read(tmp_path / 'a').format}", size)
    assert shown[-2:] == [size, "closed"]
    shown.clear()
    refused(read(tmp_path / "a"), "to rename them", y=int)
    assert shown[-1:] in (["closed"], [])


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8"))), max_size=9)
)
def test_files_equal_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    folder = tmp_path_factory.mktemp("files")
    table = pa.table(
        {"x": pa.array([x for x, _ in rows], pa.int64()), "s": pa.array([s for _, s in rows], "str")}
    )
    expected = ZSet(rows, {"x": int, "s": str})
    for ending, (write, read) in FORMATS.items():
        if ending == "csv" and any("\r" in s or "\0" in s for _, s in rows):
            continue  # PyArrow writes them as they are, and reads \r as the end of a line
        write(folder / "a", table)
        assert started(x=int, s=str).step({"a": read(folder / "a")})["o"] == expected


def test_gzip_of_several_members(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"x\n1\n") + gzip.compress(b"2\n"))
    assert rows_of(dbsp.read_csv(tmp_path / "a"), x=int) == [(1,), (2,)]
