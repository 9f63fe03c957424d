"""The types of arrays that kernels read and write."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Codes: TypeAlias = npt.NDArray[np.int64]
"""Codes of values, or weights: int64."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value per row."""
