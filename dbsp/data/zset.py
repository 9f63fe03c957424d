"""Z-sets as users see them: finite maps from rows of Python values to non-zero integer weights."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsp.data.batch import Batch
from dbsp.data.columns import float_codes
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.data.interner import Finder, Interner
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema, as_schema, infer_schema
from dbsp.data.types import BOOL, FLOAT, INT, OBJECT, Type
from dbsp.data.value_order import value_order
from dbsp.data.weights import consolidated, overflow_text, weight_array
from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError, WeightOverflowError
from dbsp.kernels import arrange, concatenate
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

_SHOWN_ROWS = 10


class ZSet:
    """An immutable Z-set: rows with non-zero integer weights.

    Z-sets over one schema form a commutative group under `+`, with `-` and the empty Z-set; `n * z` is
    the scalar product. Rows are kept as codes (`batch`) and decoded only when asked for.

    >>> z = ZSet({(1, "a"): 2, (2, "b"): -1})
    >>> z[1, "a"], len(z), (2, "c") in z
    (2, 2, False)
    >>> z + ZSet({(2, "b"): 1})
    ZSet({(1, 'a'): 2}, c0: int, c1: str)
    """

    __slots__ = ("batch", "interner", "schema")

    schema: Schema
    interner: Interner
    batch: Batch

    def __init__(self, rows: Mapping[Any, int] | Iterable[Any] = (), schema: Any = None) -> None:
        """From `{row: weight}`, or from rows that count once each; weights of equal rows are summed.

        `schema` is a Schema or a mapping from names to types; without one it is inferred from the rows.
        """
        if isinstance(rows, ZSet):
            self.schema = rows.schema if schema is None else as_schema(schema)
            self.interner = rows.interner
            self.batch = rows.recoded(self.schema, rows.interner)
            return
        listed = list(rows)
        weights = weight_array(rows.values(), len(listed)) if isinstance(rows, Mapping) else None
        self.schema = infer_schema(listed) if schema is None else as_schema(schema)
        self.interner = Interner()
        self.batch = consolidated(self.schema.encode_rows(listed, self.interner), weights)

    # --- construction ------------------------------------------------------------------------------

    @classmethod
    def wrap(cls, schema: Schema, interner: Interner, batch: Batch) -> ZSet:
        """The Z-set over existing codes; nothing is copied or checked."""
        zset = cls.__new__(cls)
        zset.schema = schema
        zset.interner = interner
        zset.batch = batch
        return zset

    @classmethod
    def empty(cls, schema: Any, interner: Interner | None = None) -> ZSet:
        """The empty Z-set of a schema."""
        schema = as_schema(schema)
        return cls.wrap(schema, interner or Interner(), Batch.empty(schema.arity))

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Any],
        weights: Iterable[int] | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """From rows and, beside them, their weights (one each if absent)."""
        listed = list(rows)
        array = None if weights is None else weight_array(weights, len(listed))
        schema = infer_schema(listed) if schema is None else as_schema(schema)
        interner = Interner() if interner is None else interner
        return cls.wrap(schema, interner, consolidated(schema.encode_rows(listed, interner), array))

    @classmethod
    def from_numpy(
        cls, rows: npt.NDArray[Any], weights: Any = None, schema: Any = None, interner: Interner | None = None
    ) -> ZSet:
        """From an array[n, k] of integers, floats or booleans; the default names are `c0`, `c1`, ..."""
        if rows.ndim != 2:
            raise InputError(f"expected an array of shape (rows, columns), got one of shape {rows.shape}")
        codes, type_ = _array_codes(rows)
        source = Schema(tuple(f"c{j}" for j in range(rows.shape[1])), (type_,) * rows.shape[1])
        schema = source if schema is None else as_schema(schema)
        interner = Interner() if interner is None else interner
        codes = recode_rows(codes, source, interner, schema, interner)
        array = None if weights is None else weight_array(np.asarray(weights).tolist(), len(rows))
        return cls.wrap(schema, interner, consolidated(codes, array))

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """From an Arrow table or record batch; each row counts once, or as `weight_column` says."""
        from dbsp.data.frames import encode_batch  # pyarrow, 0.1 s at start-up

        return cls.wrap(*encode_batch(table, weight_column, schema, interner))

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """From a pandas frame, without its index. A missing value is None, or NaN in a plain float column."""
        from dbsp.data.frames import pandas_table  # pyarrow

        return cls.from_arrow(pandas_table(frame, schema), weight_column, schema, interner)

    @classmethod
    def from_polars(
        cls,
        frame: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """From a Polars frame."""
        return cls.from_arrow(frame.to_arrow(), weight_column, schema, interner)

    def to_arrow(self, weight_column: str | None = "weight") -> Any:
        """An Arrow table of the rows in the order of the codes, with a last column of weights.

        With `weight_column=None` every row occurs as often as its weight says; negative weights are refused.
        """
        from dbsp.data.frames import decode_batch  # pyarrow

        return decode_batch(self.batch, self.schema, self.interner, weight_column)

    def to_pandas(self, weight_column: str | None = "weight") -> Any:
        """A pandas frame, as `to_arrow`. Int columns with None come out as objects: ints stay exact."""
        return self.to_arrow(weight_column).to_pandas(integer_object_nulls=True)

    def to_polars(self, weight_column: str | None = "weight") -> Any:
        """A Polars frame, as `to_arrow`."""
        import polars

        return polars.from_arrow(self.to_arrow(weight_column))

    # --- reading -----------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of columns."""
        return self.schema.arity

    def __len__(self) -> int:
        """The number of distinct rows."""
        return len(self.batch)

    def __bool__(self) -> bool:
        return len(self.batch) > 0

    def items(self) -> list[tuple[tuple[Any, ...], int]]:
        """All (row, weight) pairs, sorted by row: None first, strings in string order. O(n log n)."""
        rows, weights = self._sorted()
        return list(zip(self.schema.decode_rows(rows, self.interner), weights.tolist(), strict=True))

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows alone, sorted, each once whatever its weight."""
        return self.schema.decode_rows(self._sorted()[0], self.interner)

    def to_dict(self) -> dict[tuple[Any, ...], int]:
        """The Z-set as `{row: weight}`.

        Python takes some rows for equal that are not, such as (1,) and (True,) in an object column; they
        cannot both be keys of a dict, so use `items()` where that can happen.
        """
        return dict(self.items())

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        return iter(self.items())

    def __getitem__(self, row: Any) -> int:
        """The weight of a row, 0 if it is absent. O(log n)."""
        if not isinstance(row, (tuple, list, Mapping)) and self.arity == 1 and type(row) in (int, str, float):
            row = (row,)  # z[5] for a Z-set of one column, as z[1, 2] for one of two
        try:
            codes = list(self.schema.encode_row(row, Finder(self.interner)))
        except KeyError:  # a string that was never interned is in no row
            return 0
        at = bisect.bisect_left(self.batch.rows, codes, key=np.ndarray.tolist)
        if at < len(self.batch) and self.batch.rows[at].tolist() == codes:
            return int(self.batch.weights[at])
        return 0

    def __contains__(self, row: Any) -> bool:
        return self[row] != 0

    def _sorted(self) -> tuple[Codes, Codes]:
        order = value_order(self.schema, self.batch.rows, self.interner)
        if order is None:
            return self.batch.rows, self.batch.weights
        return self.batch.rows[order], self.batch.weights[order]

    def __repr__(self) -> str:
        if len(self) <= _SHOWN_ROWS:
            shown = self.items()
        else:  # in the order of the codes: a repr must not sort a million rows
            first = self.schema.decode_rows(self.batch.rows[:_SHOWN_ROWS], self.interner)
            shown = list(zip(first, self.batch.weights[:_SHOWN_ROWS].tolist(), strict=True))
        text = ", ".join(f"{row!r}: {weight}" for row, weight in shown)
        more = f", ... {len(self) - len(shown):,} more" if len(self) > len(shown) else ""
        columns = f", {self.schema.describe()}" if self.arity else ""
        return f"ZSet({{{text}{more}}}{columns})"

    # --- the group ---------------------------------------------------------------------------------

    def __add__(self, other: ZSet) -> ZSet:
        return self._combine(other, 1)

    def __sub__(self, other: ZSet) -> ZSet:
        return self._combine(other, -1)

    def __radd__(self, other: object) -> ZSet:
        """0 + z is z, so that `sum(zsets)` works."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __neg__(self) -> ZSet:
        return self * -1

    def __mul__(self, factor: int) -> ZSet:
        """Every weight times an integer. Raises WeightOverflowError."""
        if type(factor) is not int:
            return NotImplemented
        weights = self.batch.weights
        if factor == 0 or not len(weights):
            return self.wrap(self.schema, self.interner, Batch.empty(self.arity))
        if not all(INT64_MIN <= int(bound) * factor <= INT64_MAX for bound in (weights.min(), weights.max())):
            raise WeightOverflowError(f"{factor} times a weight of this Z-set leaves int64")
        return self._with_batch(Batch(self.batch.rows, weights * factor))

    __rmul__ = __mul__

    def _combine(self, other: ZSet, sign: int) -> ZSet:
        if not isinstance(other, ZSet):
            return NotImplemented
        if self.arity != other.arity:  # an empty Z-set made without schema is the zero of every schema
            if not other and not other.arity:
                return self
            if not self and not self.arity:
                return other * sign
        types = (
            a.optional() if b.nullable else a
            for a, b in zip(self.schema.types, other.schema.types, strict=False)
        )
        schema = self.schema if self.arity != other.arity else Schema(self.schema.names, tuple(types))
        left = self.recoded(schema, self.interner)
        right = other.recoded(schema, self.interner)
        try:
            rows, weights = concatenate(left.rows, left.weights, right.rows, right.weights, sign)
        except OverflowError as error:
            raise WeightOverflowError(overflow_text(error)) from None
        return self.wrap(schema, self.interner, Batch(rows, weights))

    def _with_batch(self, batch: Batch) -> ZSet:
        return self.wrap(self.schema, self.interner, batch)

    def recoded(self, schema: Schema, interner: Interner) -> Batch:
        """The batch of this Z-set under another schema and interner; columns meet by position.

        The same batch if nothing changes. Raises SchemaError or InputError where a value does not fit.
        """
        rows = recode_rows(self.batch.rows, self.schema, self.interner, schema, interner)
        return self.batch if rows is self.batch.rows else consolidated(rows, self.batch.weights)

    def __eq__(self, other: object) -> bool:
        """Same rows with the same weights, whatever the column names; `{row: weight}` compares as well."""
        if isinstance(other, Mapping):
            try:
                other = ZSet(other, self.schema if other else None)
            except (InputError, SchemaError, ValueOutOfRangeError):
                return False  # a row that this schema cannot hold
        if not isinstance(other, ZSet):
            return NotImplemented
        if len(self) != len(other) or (len(self) and self.arity != other.arity):
            return False
        if not len(self):
            return True
        pairs = list(zip(self.schema.types, other.schema.types, strict=True))
        types = [a.optional() if b.nullable else a for a, b in pairs]
        common = self.interner
        if any(a.kind != b.kind for a, b in pairs):
            types = [OBJECT.optional()] * self.arity  # as objects, 1, True and 1.0 stay distinct
            common = Interner()
        elif other.interner is not common:
            common = Interner()  # an interner of its own, so that neither Z-set's grows
        schema = Schema(self.schema.names, tuple(types))
        try:
            a, b = self.recoded(schema, common), other.recoded(schema, common)
        except ValueOutOfRangeError:  # -2**63 on one side, in a column that is optional on the other
            return False
        return bool(np.array_equal(a.weights, b.weights) and np.array_equal(a.rows, b.rows))

    __hash__ = None  # type: ignore[assignment]

    # --- derived Z-sets ----------------------------------------------------------------------------

    def distinct(self) -> ZSet:
        """The set of rows with positive weight, each with weight one."""
        chosen = self.positive().batch
        return self._with_batch(Batch(chosen.rows, np.ones(len(chosen), np.int64)))

    def positive(self) -> ZSet:
        """The part with positive weights, as it is."""
        keep = self.batch.weights > 0
        if keep.all():
            return self
        return self._with_batch(Batch(self.batch.rows[keep], self.batch.weights[keep]))

    def is_set(self) -> bool:
        """Whether every weight is one."""
        return bool((self.batch.weights == 1).all())

    def index_by(self, *columns: str) -> IndexedZSet:
        """The Z-set as a trie: these columns first, then the others. O(n log n), O(n) in the same order."""
        key = self.schema.indices(columns)
        if len(set(key)) != len(key):
            raise SchemaError(f"a column occurs twice in index_by({', '.join(map(repr, columns))})")
        order = [*key, *(j for j in range(self.arity) if j not in key)]
        if order == list(range(self.arity)):
            return IndexedZSet(self, len(key))
        batch = Batch(*arrange(self.batch.rows, self.batch.weights, np.array(order, np.int64)))
        return IndexedZSet(self.wrap(self.schema.select(order), self.interner, batch), len(key))


def _array_codes(rows: npt.NDArray[Any]) -> tuple[Codes, Type]:
    if rows.dtype.kind == "b":
        return np.ascontiguousarray(rows, np.int64), BOOL
    if rows.dtype.kind == "f":
        return float_codes(np.ascontiguousarray(rows, np.float64)), FLOAT
    if rows.dtype.kind not in "iu":
        raise InputError(
            f"expected an array of integers, floats or booleans, got {rows.dtype}; use from_rows"
        )
    if rows.dtype == np.uint64 and rows.size and int(rows.max()) > INT64_MAX:
        raise InputError(f"{int(rows.max())} does not fit 64 bits with sign")
    return np.array(rows, np.int64, order="C"), INT
