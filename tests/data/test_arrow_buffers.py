"""Arrow arrays over the memory of NumPy arrays, compared with PyArrow's conversions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.arrow_buffers import array_of, text_array, values_of
from dbsp.errors import InvariantError

ARROWS = [pa.int32(), pa.int64(), pa.float64(), pa.bool_()]


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[bool]]:
    arrow = draw(st.sampled_from(ARROWS))
    value = {
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.float64(): st.floats(allow_nan=False),
        pa.bool_(): st.booleans(),
    }[arrow]
    values = draw(st.lists(value, max_size=30))
    return arrow, values, draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))


@given(columns())
def test_arrays_equal_those_of_pyarrow(column: tuple[pa.DataType, list[Any], list[bool]]) -> None:
    arrow, values, missing = column
    given_ = np.array(values, arrow.to_pandas_dtype())
    whole = array_of(given_, arrow)
    whole.validate(full=True)
    assert whole.equals(pa.array(values, arrow))
    null = np.array(missing, np.bool_)
    some = array_of(given_, arrow, null)
    some.validate(full=True)
    assert some.equals(pa.array([None if m else v for v, m in zip(values, missing, strict=True)], arrow))
    every_second = array_of(np.repeat(given_, 2)[::2], arrow)
    assert every_second.equals(whole)


@given(columns(), st.integers(0, 12), st.integers(0, 12))
def test_values_of_slices_come_back(
    column: tuple[pa.DataType, list[Any], list[bool]], start: int, length: int
) -> None:
    arrow, values, _ = column
    dtype = np.int64 if arrow == pa.bool_() else arrow.to_pandas_dtype()
    piece = pa.array(values, arrow).slice(start, length)
    found = values_of(piece, dtype)
    assert found.dtype == dtype
    assert found.tolist() == values[start : start + length]


def test_numbers_of_another_width_are_refused() -> None:
    with pytest.raises(InvariantError, match="expected numbers as wide as int64, got int32"):
        values_of(pa.array([1, 2], pa.int32()), np.int64)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=10))
def test_texts_equal_those_of_pyarrow(texts: list[str]) -> None:
    found = text_array(texts)
    found.validate(full=True)
    assert found.equals(pa.array(texts, pa.large_string()))


def test_the_first_invalid_text_is_named() -> None:
    with pytest.raises(UnicodeEncodeError) as error:
        text_array(["a", "b\ud800", "c\udfff"])
    assert error.value.object == "b\ud800"


ROUND_TRIP = """
import sys, dbsp, pyarrow as pa
from dbsp.data.arrow_buffers import array_of, text_array
import numpy as np
n = 3_000
numbers = np.arange(n)
table = pa.table({
    "i": array_of(numbers, pa.int64()), "f": array_of(numbers / 2, pa.float64()),
    "b": array_of(numbers % 2 == 0, pa.bool_()), "s": text_array([str(k % 7) for k in range(n)]),
})
rows = dbsp.ZSet.from_arrow(table)
back = rows.to_arrow()
assert back.column_names == [*table.column_names, "weight"] and back.num_rows == n
print("pandas" in sys.modules)
"""

PROGRAM = """
.decl edge(x: number, y: symbol, z: float)
.input edge
.decl out(x: number, y: symbol, z: float)
.output out
out(x, y, z) :- edge(x, y, z).
"""


def test_neither_tables_nor_commands_load_pandas(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ROUND_TRIP], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("".join(f"{k}\tn{k % 9}\t{k / 4}\n" for k in range(20_000)))
    command = [sys.executable, "-X", "importtime", "-m", "dbsp", "run", "p.dl", "-F", ".", "-D", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (tmp_path / "out" / "out.csv").read_text().count("\n") == 20_000
    modules = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in modules
    assert "pandas" not in modules
