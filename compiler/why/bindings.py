"""Bindings of variables, stored by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dbsp.kernels.arrays import Codes, Mask


class Bindings:
    """`size` bindings of the same variables: for each variable the int64[size] codes of its values.

    `chosen` maps each joined scan of a body to the positions of its matching rows.
    """

    __slots__ = ("chosen", "size", "values")

    def __init__(self, size: int, values: Mapping[str, Codes], chosen: Mapping[int, Codes]) -> None:
        self.size = size
        self.values = values
        self.chosen = chosen

    @classmethod
    def single(cls, values: Mapping[str, int]) -> Bindings:
        """Return one binding."""
        return cls(1, {name: np.array([code], np.int64) for name, code in values.items()}, {})

    def take(self, which: Codes | Mask | slice) -> Bindings:
        """Return the selected bindings; a position may occur several times."""
        values = {name: codes[which] for name, codes in self.values.items()}
        chosen = {scan: rows[which] for scan, rows in self.chosen.items()}
        if isinstance(which, slice):
            size = len(range(*which.indices(self.size)))
        else:
            size = int(np.count_nonzero(which)) if which.dtype == bool else len(which)
        return Bindings(size, values, chosen)

    def bind(self, name: str, codes: Codes) -> Bindings:
        """Return the bindings with one more variable."""
        return Bindings(self.size, {**self.values, name: codes}, self.chosen)

    def choose(self, scan: int, rows: Codes) -> Bindings:
        """Return the bindings with the matching rows of one more scan."""
        return Bindings(self.size, self.values, {**self.chosen, scan: rows})

    def chunks(self) -> Iterator[Bindings]:
        """Yield the bindings in pieces of growing size, so that the first solution is cheap."""
        start, size = 0, 1
        while start < self.size:
            yield self.take(slice(start, start + size))
            start += size
            size = min(size * 16, 4_096)

    def matrix(self, names: tuple[str, ...]) -> Codes:
        """Return the codes of some variables as int64[size, len(names)]."""
        if not names:
            return np.empty((self.size, 0), np.int64)
        return np.stack([self.values[name] for name in names], axis=1)
