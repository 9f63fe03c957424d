"""Keep what a worker process has imported out of garbage collection.

Spark collects garbage in a Python worker after every task. That visits all objects of the process,
and dbsp and its libraries have 50,000 of them, which live as long as the process; with 90,000, as
when Numba was loaded, it took 50 ms in each task, ten times the work of a small tick. So they are
frozen (`gc.freeze`) before the first task, and once more when the process has loaded compiled
kernels.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

_spared: bool | None = None
"""Whether compiled kernels are among the frozen imports; None if nothing is frozen."""


def spare_imports(forget: Callable[[], None]) -> None:
    """Freeze the objects of this process, if it has imported more since the last time.

    `forget` drops what is not to live as long as the process: frozen objects that refer to each
    other are never freed.
    """
    global _spared
    compiled = "dbsp.kernels.code_loader" in sys.modules
    if compiled != _spared:
        forget()
        gc.collect()
        gc.freeze()
        _spared = compiled
