"""`dbsp warmup`: compile every kernel in advance, so that no first tick compiles any."""

from __future__ import annotations

import time

from dbsp.errors import SetupError, counted

EXAMPLES = """Example, in the build of a container image:

RUN pip install dbsp-circuits && dbsp warmup"""


def warmup() -> None:
    """Compile the engine's kernels for this machine in advance.

    Kernels are compiled at their first use and cached on disk. This command compiles all of them,
    on all cores, so that later runs start without compilation. Run it after installing, or while
    building an image.
    """
    from dbsp.kernels.code_files import cache_folder
    from dbsp.kernels.jit import entries
    from dbsp.kernels.kernel_cache import fill_cache, missing_kernels, shown_progress

    folder = cache_folder()
    if folder is None:
        raise SetupError(
            "no folder for compiled kernels is writable; set the environment variable NUMBA_CACHE_DIR to one"
        )
    started = time.perf_counter()
    missing = missing_kernels(entries())
    if missing:
        with shown_progress(missing) as done:
            fill_cache(missing, done)
    seconds = time.perf_counter() - started
    summary = f"compiled {counted(len(missing), 'kernel')}" if missing else "all kernels were in the cache"
    print(f"{summary}: {folder}; {seconds:.1f} s")
