"""Z-sets for callers: finite maps from rows of Python values to non-zero integer weights."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.batch import Batch
from dbsp.data.columns import float_codes
from dbsp.data.finder import Finder
from dbsp.data.indexed_zset import IndexedZSet
from dbsp.data.interner import Interner
from dbsp.data.masks import rows_where
from dbsp.data.plain_codes import out_of_int_range
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema, as_schema, infer_schema
from dbsp.data.types import BOOL, FLOAT, INT, OBJECT, Type
from dbsp.data.value_order import value_order
from dbsp.data.weights import consolidated, overflow_text, weight_array, weight_name
from dbsp.display.displayed import Displayed
from dbsp.errors import (
    InputError,
    SchemaError,
    ValueOutOfRangeError,
    WeightOverflowError,
    counted,
    full_repr,
    shorten,
    wrong_argument,
)
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

_SHOWN_ROWS = 10


class ZSet(Displayed):
    """An immutable Z-set: rows with non-zero integer weights.

    Z-sets over one schema form a commutative group under `+`, with `-` and the empty Z-set; `n * z`
    multiplies every weight by n. Rows are stored as codes and decoded when they are read.
    `z[row]` is the weight of a row, 0 if it is absent, in O(log n); `row in z` is whether the
    weight is not 0; `len(z)` is the number of different rows.

    Parameters:
        rows: a mapping `{row: weight}`, or rows that count once each; the weights of equal rows are
            summed. A row is a tuple, list, mapping, named tuple or dataclass.
        schema: a `Schema`, a mapping from names to types, or an annotated class; inferred from the
            rows if None.

    Raises:
        SchemaError: `schema` is not a schema.
        InputError: a row has the wrong number or type of values, or a weight is not an int.
        ValueOutOfRangeError: a value is outside the range of its type.
        WeightOverflowError: a weight, or the sum for a row, is outside the 64-bit range.

    Examples:
        >>> z = ZSet({(1, "a"): 2, (2, "b"): -1})
        >>> z[1, "a"], len(z), (2, "c") in z
        (2, 2, False)
        >>> z + ZSet({(2, "b"): 1})
        ZSet({(1, 'a'): 2}, c0: int, c1: str)
    """

    __slots__ = ("interner", "schema", "stored")

    schema: Schema
    """The names and types of the columns."""
    interner: Interner
    stored: Batch
    """The codes and weights, for kernels. The state of a run may share them: never write."""

    @ends_at_caller
    def __init__(self, rows: Mapping[Any, int] | Iterable[Any] = (), schema: Any = None) -> None:
        if isinstance(rows, ZSet):
            self.schema = rows.schema if schema is None else as_schema(schema)
            self.interner = rows.interner
            self.stored = rows.recoded(self.schema, rows.interner)
            return
        listed = _listed(rows)
        weights = weight_array(rows.values(), len(listed)) if isinstance(rows, Mapping) else None
        self.schema = infer_schema(listed) if schema is None else as_schema(schema)
        self.interner = Interner()
        self.stored = consolidated(self.schema.encode_rows(listed, self.interner), weights)

    @property
    def batch(self) -> Batch:
        """The codes and weights as read-only arrays."""
        return self.stored.read_only()

    # --- construction -----------------------------------------------------------------------------

    @classmethod
    def wrap(cls, schema: Schema, interner: Interner, batch: Batch) -> Self:
        """Return the Z-set over existing codes, without a copy or a check."""
        zset = cls.__new__(cls)
        zset.schema = schema
        zset.interner = interner
        zset.stored = batch
        return zset

    @classmethod
    @ends_at_caller
    def empty(cls, schema: Any, interner: Interner | None = None) -> ZSet:
        """Return the Z-set without rows.

        Parameters:
            schema: a `Schema`, a mapping from names to types, or an annotated class.
            interner: the dictionary of strings and objects to share; a new one if None.

        Examples:
            >>> ZSet.empty({"x": int})
            ZSet({}, x: int)
        """
        schema = as_schema(schema)
        return cls.wrap(schema, interner or Interner(), Batch.empty(schema.arity))

    @classmethod
    @ends_at_caller
    def from_rows(
        cls,
        rows: Iterable[Any],
        weights: Iterable[int] | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """Return a Z-set of rows and of their weights, given as two sequences.

        Parameters:
            rows: tuples, lists, mappings, named tuples or dataclasses.
            weights: one int per row; each row counts once if None.
            schema: the columns, as for `ZSet`; inferred from the rows if None.
            interner: the dictionary of strings and objects to share; a new one if None.

        Raises:
            InputError: a row does not fit the schema, or the weights do not fit the rows.
            ValueOutOfRangeError: a value is outside the range of its type.
            WeightOverflowError: a weight, or the sum for a row, is outside the 64-bit range.

        Examples:
            >>> ZSet.from_rows([(1, "a"), (2, "b"), (1, "a")], [1, -1, 3])
            ZSet({(1, 'a'): 4, (2, 'b'): -1}, c0: int, c1: str)
        """
        listed = _listed(rows)
        array = None if weights is None else weight_array(weights, len(listed))
        schema = infer_schema(listed) if schema is None else as_schema(schema)
        interner = Interner() if interner is None else interner
        return cls.wrap(schema, interner, consolidated(schema.encode_rows(listed, interner), array))

    @classmethod
    @ends_at_caller
    def from_numpy(
        cls, rows: npt.NDArray[Any], weights: Any = None, schema: Any = None, interner: Interner | None = None
    ) -> ZSet:
        """Return a Z-set of the rows of a NumPy array.

        Parameters:
            rows: an array of shape (rows, columns) of integers, floats or booleans.
            weights: one int per row; each row counts once if None.
            schema: the columns, as for `ZSet`; named `c0`, `c1`, ... if None.
            interner: the dictionary of strings and objects to share; a new one if None.

        Raises:
            InputError: the array has another shape or type of elements.
            ValueOutOfRangeError: an unsigned integer is larger than 2**63 - 1.

        Examples:
            >>> import numpy
            >>> ZSet.from_numpy(numpy.array([[1, 2], [1, 2], [3, 4]]))
            ZSet({(1, 2): 2, (3, 4): 1}, c0: int, c1: int)
        """
        if not isinstance(rows, np.ndarray):
            raise _wrong_type("a NumPy array", rows)
        if rows.ndim != 2:
            raise InputError(
                f"expected an array of shape (rows, columns), got one of shape {rows.shape}",
                code="wrong-arity",
            )
        codes, type_ = _array_codes(rows)
        source = Schema(tuple(f"c{j}" for j in range(rows.shape[1])), (type_,) * rows.shape[1])
        schema = source if schema is None else as_schema(schema)
        interner = Interner() if interner is None else interner
        codes = recode_rows(codes, source, interner, schema, interner)
        array = None if weights is None else weight_array(np.atleast_1d(weights).tolist(), len(rows))
        return cls.wrap(schema, interner, consolidated(codes, array))

    @classmethod
    @ends_at_caller
    def from_arrow(
        cls,
        table: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """Return a Z-set of the rows of an Arrow table.

        The columns match those of the schema by name, in any order; to match them by position,
        rename them with `table.rename_columns`. A column with nulls is optional. A struct becomes a
        tuple without field names, if the schema has an object column for it.

        Parameters:
            table: a `pyarrow.Table` or `pyarrow.RecordBatch`.
            weight_column: the column of weights; each row counts once if None.
            schema: the columns, as for `ZSet`; those of the table if None.
            interner: the dictionary of strings and objects to share; a new one if None.

        Raises:
            SchemaError: the table has another number of columns, or no such weight column.
            InputError: the names are not those of the schema, a value is of another type or a
                struct, or a weight is null or not an integer.
            ValueOutOfRangeError: a value is outside the range of its type.

        Examples:
            >>> import pyarrow
            >>> ZSet.from_arrow(pyarrow.table({"x": [1, 2], "w": [3, -1]}), "w")
            ZSet({(1,): 3, (2,): -1}, x: int)
        """
        from dbsp.data.frames import encode_batch  # pyarrow, 0.1 s at start-up

        return cls.wrap(*encode_batch(table, weight_column, schema, interner))

    @classmethod
    @ends_at_caller
    def from_pandas(
        cls,
        frame: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """Return a Z-set of the rows of a pandas frame, without its index.

        A missing value is None, and NaN in a column that the schema declares as `float`.

        Parameters:
            frame: a `pandas.DataFrame`.
            weight_column: the column of weights; each row counts once if None.
            schema: the columns, as for `ZSet`; those of the frame if None.
            interner: the dictionary of strings and objects to share; a new one if None.

        Raises:
            InputError: `frame` is not a frame, or a column holds values of several types.
            SchemaError: as for `from_arrow`, and so the other errors.

        Examples:
            >>> import pandas
            >>> ZSet.from_pandas(pandas.DataFrame({"x": [1, 2], "s": ["a", None]}))
            ZSet({(1, 'a'): 1, (2, None): 1}, x: int, s: str?)
        """
        from dbsp.data.frames import pandas_table  # pyarrow

        return cls.from_arrow(pandas_table(frame, schema), weight_column, schema, interner)

    @classmethod
    @ends_at_caller
    def from_polars(
        cls,
        frame: Any,
        weight_column: str | None = None,
        schema: Any = None,
        interner: Interner | None = None,
    ) -> ZSet:
        """Return a Z-set of the rows of a Polars frame.

        Parameters:
            frame: a `polars.DataFrame`.
            weight_column: the column of weights; each row counts once if None.
            schema: the columns, as for `ZSet`; those of the frame if None.
            interner: the dictionary of strings and objects to share; a new one if None.

        Raises:
            InputError: `frame` is not a frame.
            SchemaError: as for `from_arrow`, and so the other errors.

        Examples:
            >>> import polars
            >>> ZSet.from_polars(polars.DataFrame({"x": [1, 1, 2]}))
            ZSet({(1,): 2, (2,): 1}, x: int)
        """
        if not hasattr(frame, "to_arrow"):
            raise _wrong_type("a Polars DataFrame", frame)
        return cls.from_arrow(frame.to_arrow(), weight_column, schema, interner)

    @ends_at_caller
    def to_arrow(self, weight_column: str | None = "weight") -> Any:
        """Return an Arrow table of the rows and their weights, in the order of the codes.

        Parameters:
            weight_column: the name of the last column, which holds the weights. If None, a row of
                weight n occurs n times.

        Raises:
            SchemaError: the Z-set has a column of that name, a column without an Arrow type, or a
                text with surrogates.
            InputError: a weight is negative and `weight_column` is None.

        Examples:
            >>> ZSet({(1, "a"): 2}, {"x": int, "s": str}).to_arrow().to_pylist()
            [{'x': 1, 's': 'a', 'weight': 2}]
        """
        from dbsp.data.frames import decode_batch  # pyarrow

        return decode_batch(self.stored, self.schema, self.interner, weight_column)

    @ends_at_caller
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows and, as the last column, their weights, for other libraries.

        The column is named `weight`, with underscores appended if the schema has a `weight`.

        Parameters:
            requested_schema: an Arrow schema to convert to, as the Arrow protocol defines it.

        Raises:
            SchemaError: a column has no Arrow type.

        Examples:
            >>> import polars
            >>> polars.DataFrame(ZSet({(1, "a"): 2}, {"x": int, "s": str})).to_dicts()
            [{'x': 1, 's': 'a', 'weight': 2}]
        """
        return self.to_arrow(weight_name(self.schema)).__arrow_c_stream__(requested_schema)

    @ends_at_caller
    def to_pandas(self, weight_column: str | None = "weight") -> Any:
        """Return a pandas frame of the rows and their weights; see `to_arrow`.

        A column of ints with None becomes a column of objects, so that the ints stay exact. In a
        column of floats pandas has NaN for None, so a frame cannot tell the two apart.

        Parameters:
            weight_column: the name of the column of weights. If None, a row of weight n occurs n
                times.

        Raises:
            SchemaError: as for `to_arrow`, and so InputError.

        Examples:
            >>> ZSet({(1, "a"): 2}, {"x": int, "s": str}).to_pandas()
               x  s  weight
            0  1  a       2
        """
        return self.to_arrow(weight_column).to_pandas(integer_object_nulls=True)

    @ends_at_caller
    def to_polars(self, weight_column: str | None = "weight") -> Any:
        """Return a Polars frame of the rows and their weights; see `to_arrow`.

        Parameters:
            weight_column: the name of the column of weights. If None, a row of weight n occurs n
                times.

        Raises:
            SchemaError: as for `to_arrow`, and so InputError.

        Examples:
            >>> ZSet({(1, "a"): 2}, {"x": int, "s": str}).to_polars().rows()
            [(1, 'a', 2)]
        """
        import polars

        return polars.from_arrow(self.to_arrow(weight_column))

    # --- reading ----------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of columns."""
        return self.schema.arity

    def __len__(self) -> int:
        """The number of distinct rows."""
        return len(self.stored)

    def __bool__(self) -> bool:
        return len(self.stored) > 0

    def items(self) -> list[tuple[tuple[Any, ...], int]]:
        """Return all pairs (row, weight), sorted by row. O(n log n).

        None is first; strings are in string order, not in the order of their codes.

        Examples:
            >>> ZSet({(2,): -1, (1,): 3}).items()
            [((1,), 3), ((2,), -1)]
        """
        rows, weights = self._sorted()
        return list(zip(self.schema.decode_rows(rows, self.interner), weights.tolist(), strict=True))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the different rows, sorted, without their weights. O(n log n).

        Examples:
            >>> ZSet({(2,): -1, (1,): 3}).rows()
            [(1,), (2,)]
        """
        return self.schema.decode_rows(self._sorted()[0], self.interner)

    @ends_at_caller
    def to_dict(self) -> dict[tuple[Any, ...], int]:
        """Return the Z-set as a dictionary `{row: weight}`.

        Raises:
            SchemaError: Python treats two different rows as equal, so they cannot both be keys of a
                dictionary: (1,) and (True,) in a column of objects, or two instants of a local time
                that occurs twice when clocks are set back. `items()` and `rows()` return both.

        Examples:
            >>> ZSet([(1, "a"), (1, "a")]).to_dict()
            {(1, 'a'): 2}
        """
        pairs = self.items()
        found = dict(pairs)
        if len(found) < len(pairs):
            raise self._equal_rows(pairs)
        return found

    def _equal_rows(self, pairs: Sequence[tuple[tuple[Any, ...], int]]) -> SchemaError:
        """Return the error for the first two rows that are different here and equal in Python."""
        first: dict[tuple[Any, ...], int] = {}
        at, other = next(
            (place, found)
            for place, (row, _) in enumerate(pairs)
            if (found := first.setdefault(row, place)) != place
        )
        codes = self._sorted()[0]
        column = int(np.argmax(codes[at] != codes[other]))
        one, two = (shorten(pairs[place][0][column], 200) for place in (other, at))
        return SchemaError(
            f"column {self.schema.names[column]!r}: {one} and {two} are different values that Python treats "
            "as equal, so a dictionary keeps only one of their rows; use items() or rows()",
            code="unsupported-value",
        )

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        return iter(self.items())

    @ends_at_caller
    def __getitem__(self, row: Any) -> int:
        """The weight of a row, 0 if it is absent. O(log n)."""
        if not isinstance(row, (tuple, list, Mapping)) and self.arity == 1 and type(row) in (int, str, float):
            row = (row,)  # z[5] for a Z-set of one column, like z[1, 2] for two columns
        try:
            codes = list(self.schema.encode_row(row, Finder(self.interner)))
        except KeyError:  # a string that is not interned occurs in no row
            return 0
        at = bisect.bisect_left(self.stored.rows, codes, key=np.ndarray.tolist)
        if at < len(self.stored) and self.stored.rows[at].tolist() == codes:
            return int(self.stored.weights[at])
        return 0

    def __contains__(self, row: Any) -> bool:
        return self[row] != 0

    def _sorted(self) -> tuple[Codes, Codes]:
        order = value_order(self.schema, self.stored.rows, self.interner)
        if order is None:
            return self.stored.rows, self.stored.weights
        return self.stored.rows.take(order, 0), self.stored.weights.take(order)

    def __repr__(self) -> str:
        if len(self) <= _SHOWN_ROWS:
            shown = self.items()
        else:  # in the order of the codes, since a repr must not sort a million rows
            first = self.schema.decode_rows(self.stored.rows[:_SHOWN_ROWS], self.interner)
            shown = list(zip(first, self.stored.weights[:_SHOWN_ROWS].tolist(), strict=True))
        text = ", ".join(f"{full_repr(row)}: {weight}" for row, weight in shown)
        more = f", ... {len(self) - len(shown):,} more" if len(self) > len(shown) else ""
        columns = f", {self.schema.describe()}" if self.arity else ""
        return f"ZSet({{{text}{more}}}{columns})"

    _described_by = "dbsp.data.zset_display:zset_document"

    # --- the group --------------------------------------------------------------------------------

    @ends_at_caller
    def __add__(self, other: ZSet) -> ZSet:
        return self._combine(other, 1)

    @ends_at_caller
    def __sub__(self, other: ZSet) -> ZSet:
        return self._combine(other, -1)

    def __radd__(self, other: object) -> ZSet:
        """0 + z is z, so that `sum(zsets)` works."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __neg__(self) -> ZSet:
        return self * -1

    @ends_at_caller
    def __mul__(self, factor: int) -> ZSet:
        """Multiply every weight by an integer. Raises WeightOverflowError."""
        if isinstance(factor, bool) or not isinstance(factor, int | np.integer):
            return NotImplemented
        factor = int(factor)
        weights = self.stored.weights
        if factor == 0 or not len(weights):
            return ZSet.wrap(self.schema, self.interner, Batch.empty(self.arity))
        if not all(INT64_MIN <= int(bound) * factor <= INT64_MAX for bound in (weights.min(), weights.max())):
            raise WeightOverflowError(f"{factor} times a weight of this Z-set is outside the 64-bit range")
        return self._with_batch(Batch(self.stored.rows, weights * factor))

    __rmul__ = __mul__

    __array_ufunc__ = None
    """NumPy leaves operators of its numbers and a Z-set to the Z-set."""

    def _combine(self, other: ZSet, sign: int) -> ZSet:
        if not isinstance(other, ZSet):
            return NotImplemented
        if self.arity != other.arity:  # an empty Z-set without a schema is the zero of every schema
            if not other and not other.arity:
                return self
            if not self and not self.arity:
                return other * sign
        elif (order := self.schema.match(other.schema.names)) is not None:
            other = other.ordered(order)
        types = (
            a.optional() if b.nullable else a
            for a, b in zip(self.schema.types, other.schema.types, strict=False)
        )
        schema = self.schema if self.arity != other.arity else Schema(self.schema.names, tuple(types))
        left = self.recoded(schema, self.interner)
        right = other.recoded(schema, self.interner)
        try:
            total = left.plus(right, sign)
        except OverflowError as error:
            raise WeightOverflowError(overflow_text(error)) from None
        return ZSet.wrap(schema, self.interner, total)

    def _with_batch(self, batch: Batch) -> ZSet:
        return ZSet.wrap(self.schema, self.interner, batch)

    def recoded(self, schema: Schema, interner: Interner) -> Batch:
        """Return the batch of this Z-set under another schema and interner.

        Columns match by position. It is the same batch if nothing changes. Raises SchemaError or
        InputError if a value does not fit.
        """
        rows = recode_rows(self.stored.rows, self.schema, self.interner, schema, interner)
        return self.stored if rows is self.stored.rows else consolidated(rows, self.stored.weights)

    def __eq__(self, other: object) -> bool:
        """Compare rows and weights, not column names; `other` may be a mapping `{row: weight}`."""
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
            common = Interner()  # a new interner, so that the interner of neither Z-set grows
        schema = Schema(self.schema.names, tuple(types))
        try:
            a, b = self.recoded(schema, common), other.recoded(schema, common)
        except ValueOutOfRangeError:  # -2**63 on one side, in a column that is optional on the other
            return False
        return bool(np.array_equal(a.weights, b.weights) and np.array_equal(a.rows, b.rows))

    __hash__ = None  # type: ignore[assignment]

    # --- derived Z-sets ---------------------------------------------------------------------------

    def distinct(self) -> ZSet:
        """Return the rows of positive weight, each with weight 1. O(n).

        Examples:
            >>> ZSet({(1,): 3, (2,): -1}).distinct()
            ZSet({(1,): 1}, c0: int)
        """
        chosen = self.positive().stored
        return self._with_batch(Batch(chosen.rows, np.ones(len(chosen), np.int64)))

    def positive(self) -> ZSet:
        """Return the rows of positive weight, with their weights. O(n).

        Examples:
            >>> ZSet({(1,): 3, (2,): -1}).positive()
            ZSet({(1,): 3}, c0: int)
        """
        keep = self.stored.weights > 0
        if keep.all():
            return self
        return self._with_batch(Batch(*rows_where(keep, self.stored.rows, self.stored.weights)))

    def is_set(self) -> bool:
        """Return whether every weight is 1. O(n).

        Examples:
            >>> ZSet([(1,), (2,)]).is_set(), ZSet([(1,), (1,)]).is_set()
            (True, False)
        """
        return bool((self.stored.weights == 1).all())

    @ends_at_caller
    def index_by(self, *columns: str) -> IndexedZSet:
        """Return the Z-set as a trie: the named columns first, as its key, then the others.

        O(n log n); O(1) if the columns are in that order already.

        Parameters:
            columns: the names of the key columns, in the order of the trie.

        Raises:
            SchemaError: a column does not exist or is named twice.

        Examples:
            >>> edges = ZSet([(1, 2), (1, 3)], {"x": int, "y": int})
            >>> edges.index_by("x").group(1)
            ZSet({(2,): 1, (3,): 1}, y: int)
        """
        key = self.schema.indices(columns)
        if len(set(key)) != len(key):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise SchemaError(
                f"column {twice!r} occurs twice in index_by({', '.join(map(repr, columns))})",
                code="duplicate-column",
            )
        order = [*key, *(j for j in range(self.arity) if j not in key)]
        return IndexedZSet(self.ordered(order), len(key))

    @ends_at_caller
    def renamed(self, *names: str) -> ZSet:
        """Return the Z-set with other names of its columns, in their order. O(1).

        A Z-set and an Arrow table match the columns of an input by name; this matches them by
        position.

        Parameters:
            names: the new name of every column.

        Raises:
            SchemaError: the number of names is not the number of columns, or a name occurs twice.

        Examples:
            >>> ZSet([(1, 2)], Schema.of(source=int, target=int)).renamed("x", "y")
            ZSet({(1, 2): 1}, x: int, y: int)
        """
        if len(names) != self.arity:
            raise SchemaError(
                f"expected {counted(self.arity, 'name')} for the columns ({self.schema.describe()}), "
                f"got {len(names)}",
                code="wrong-arity",
            )
        return ZSet.wrap(Schema(names, self.schema.types), self.interner, self.stored)

    @ends_at_caller
    def ordered(self, order: Sequence[int]) -> ZSet:
        """Return the Z-set with its columns in another order; itself if the order is the same.

        `order` has the position of every column once. Raises ArgumentError for others.
        """
        positions = list(range(self.arity))
        given = list(order) if isinstance(order, Iterable) else None
        if given == positions:
            return self
        if given is None or len(given) != len(positions) or any(at not in given for at in positions):
            expected = f"each position of the columns ({self.schema.describe()}) once"
            raise wrong_argument("order", expected, order)
        batch = self.stored.rearranged(np.array(given, np.int64))
        return ZSet.wrap(self.schema.select(given), self.interner, batch)


def _listed(rows: Any) -> list[Any]:
    method = _OF_TABLES.get((type(rows).__module__.partition(".")[0], type(rows).__name__))
    if method is not None or not isinstance(rows, Iterable):
        hint = "" if method is None else f"; write ZSet.{method}(...)"
        raise _wrong_type("rows, such as a list of tuples", rows, hint)
    return list(rows)


_OF_TABLES = {
    ("pandas", "DataFrame"): "from_pandas",
    ("polars", "DataFrame"): "from_polars",
    ("pyarrow", "RecordBatch"): "from_arrow",
    ("pyarrow", "Table"): "from_arrow",
}
"""By library and class, the method that reads a table."""


def _wrong_type(expected: str, value: Any, hint: str = "") -> InputError:
    return InputError(
        f"expected {expected}, got {shorten(value)} of type {type(value).__name__}{hint}", code="wrong-type"
    )


def _array_codes(rows: npt.NDArray[Any]) -> tuple[Codes, Type]:
    if rows.dtype.kind == "b":
        return np.ascontiguousarray(rows, np.int64), BOOL
    if rows.dtype.kind == "f":
        return float_codes(np.ascontiguousarray(rows, np.float64)), FLOAT
    if rows.dtype.kind not in "iu":
        raise InputError(
            f"expected an array of integers, floats or booleans, got {rows.dtype}; use ZSet.from_rows",
            code="wrong-type",
        )
    if rows.dtype == np.uint64 and rows.size and int(rows.max()) > INT64_MAX:
        raise out_of_int_range(int(rows.max()))
    return np.array(rows, np.int64, order="C"), INT
