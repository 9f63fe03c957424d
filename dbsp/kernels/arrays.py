"""The types of arrays that kernels read and write.

The annotations of a kernel define its signature: `dbsp.kernels.compiled` compiles it for these
types.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Codes: TypeAlias = npt.NDArray[np.int64]
"""Codes of values, or weights: int64."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value per row."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""A matrix int64[n, k]: one row of k codes per row, in C order."""

StoredRows: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.int32]
"""The rows of a sorted run of a trace: int64[n, k] or int32[n, k], in C order."""

Words: TypeAlias = npt.NDArray[np.uint64]
"""Rows packed into one number each: uint64."""

Pointer: TypeAlias = Any
"""The int64 numbers at an address, by index: see `dbsp.kernels.jit.at_address`."""

RunCodes: TypeAlias = Any
"""The codes of a sorted run, int64 or int32, by index: see `dbsp.kernels.jit.codes_at`."""
