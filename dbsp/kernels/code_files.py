"""Files with the machine code of kernels: their folder, and which ones are usable.

A file belongs to one kernel, one interpreter, one version of Numba and one processor, as its name
says. It is usable while no source of the kernel is newer.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
from llvmlite import binding

from dbsp.errors import expect_present
from dbsp.kernels.jit import callees

_SEAL = 4
"""The bytes of the checksum with which a file begins."""


class KernelCode(NamedTuple):
    """The machine code of a kernel."""

    machine: str
    """What it was compiled for (`_machine`)."""
    object_code: bytes
    """A relocatable object file in memory."""
    function: str
    """The symbol of the function that reads objects as arguments."""
    environment: str
    """The symbol of the address of its constants."""
    constants: list[Any]


def is_cached(kernel: Callable[..., Any]) -> bool:
    """Return whether the machine code of a kernel is on disk, and not older than its sources."""
    return _find(kernel) is not None


def read_code(kernel: Callable[..., Any]) -> KernelCode | None:
    """Return the machine code of a kernel from disk, or None if it has to be compiled.

    A damaged file is removed.
    """
    path = _find(kernel)
    if path is None:
        return None
    with suppress(OSError):
        content = path.read_bytes()
        if content[:_SEAL] == _seal(content[_SEAL:]):
            code: KernelCode = pickle.loads(content[_SEAL:])
            if code.machine == _machine():
                return code
        path.unlink()
    return None


def write_code(kernel: Callable[..., Any], code: Callable[[str], KernelCode]) -> None:
    """Write the machine code of a kernel for this machine, unless this process may not write it."""
    folder = cache_folder(_source(kernel))
    if folder is None:
        return
    content = pickle.dumps(code(_machine()), protocol=5)
    with suppress(OSError):
        number, name = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(_seal(content) + content)
            os.replace(name, folder / _name(kernel))
        except BaseException:
            os.unlink(name)
            raise


@cache
def cache_folder(source: str = __file__) -> Path | None:
    """Return the folder for machine code of the kernels of a source; None if none is writable."""
    for folder in _folders(source):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


@cache
def changed(kernel: Callable[..., Any]) -> float:
    """Return when the sources of a kernel and of those that it calls changed last."""
    return max(map(_file_changed, {_source(each) for each in (kernel, *callees(kernel))}))


def _find(kernel: Callable[..., Any]) -> Path | None:
    for folder in _folders(_source(kernel)):
        path = folder / _name(kernel)
        with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
            if os.stat(path).st_mtime >= changed(kernel):
                return path
    return None


def _folders(source: str) -> Iterator[Path]:
    """Yield the folders that may have machine code of the kernels of a source, the best one first.

    They are those of Numba, which keeps there what it needs to compile kernels that call others.
    """
    package = Path(source).parent
    name = f"{package.name}_{zlib.crc32(os.fsencode(package)):08x}"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / name
        return
    yield package / "__pycache__"
    from platformdirs import user_cache_path

    yield user_cache_path("dbsp", appauthor=False) / name


def _name(kernel: Callable[..., Any]) -> str:
    module = kernel.__module__.rpartition(".")[2]
    machine = zlib.crc32(_machine().encode())
    return f"{module}.{kernel.__name__}.{sys.implementation.cache_tag}-{machine:08x}.code"


@cache
def _machine() -> str:
    """Return what machine code depends on, besides its sources."""
    numba = expect_present(find_spec("numba"), "the package numba")
    folder = Path(expect_present(numba.origin, "the file of numba")).parent
    processor = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    version = (folder / "_version.py").read_text()
    parts = sys.version, version, llvmlite.__version__, binding.get_process_triple(), processor, features
    return "\n".join(parts)


def _source(kernel: Callable[..., Any]) -> str:
    return kernel.__code__.co_filename


def _seal(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_SEAL, "big")


@cache
def _file_changed(source: str) -> float:
    return os.stat(source).st_mtime
