"""Files with the machine code of kernels: their folder, and which ones are usable.

A file belongs to one kernel with its bytecode, one interpreter, one version of Numba and one
processor: its name has checksums of them. Times of files say less, since installers keep those of
the archive, and an older version may have been used since.
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
from types import CodeType
from typing import Any, NamedTuple

import llvmlite
import numpy as np
from llvmlite import binding

from dbsp.errors import expect_present
from dbsp.kernels.jit import callees, globals_of

_COMPILER = ("array_conversions.py", "arrays.py", "code_files.py", "compiled.py", "intrinsics.py", "jit.py")
"""The modules that decide what the file of every kernel has."""

_NUMBERS = (bool, int, float, np.generic)

_SEAL = 4
"""The bytes of the checksum with which a file begins."""


class KernelCode(NamedTuple):
    """The machine code of a kernel."""

    object_code: bytes
    """A relocatable object file in memory."""
    function: str
    """The symbol of the function that reads objects as arguments."""
    environment: str
    """The symbol of the address of its constants."""
    constants: list[Any]


def is_cached(kernel: Callable[..., Any]) -> bool:
    """Return whether the machine code of a kernel as it is now is on disk."""
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
            machine, code = pickle.loads(content[_SEAL:])
            if machine == _machine():
                return KernelCode(*code)
        path.unlink()
    return None


def write_code(kernel: Callable[..., Any], code: KernelCode) -> None:
    """Write the machine code of a kernel for this machine, unless this process may not write it."""
    folder = cache_folder(_source(kernel))
    if folder is None:
        return
    content = pickle.dumps((_machine(), tuple(code)), protocol=5)
    path = folder / _name(kernel)
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        try:
            draft.write_bytes(_seal(content) + content)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


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
def checksum(kernel: Callable[..., Any]) -> int:
    """Return a checksum of what is compiled: bytecode, numbers that it uses, and the compiler."""
    own = sorted(map(_own_checksum, (kernel, *callees(kernel))))
    return zlib.crc32(repr((_own_checksum(kernel), own, _compiler_checksum())).encode())


@cache
def _own_checksum(kernel: Callable[..., Any]) -> int:
    numbers = [(name, value) for name, value in globals_of(kernel) if isinstance(value, _NUMBERS)]
    described = kernel.__qualname__, kernel.__annotations__, _bytecode(kernel.__code__), numbers
    return zlib.crc32(repr(described).encode())


def _bytecode(code: CodeType) -> tuple[Any, ...]:
    constants = [_bytecode(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return zlib.crc32(code.co_code), code.co_names, code.co_varnames, constants


@cache
def _compiler_checksum() -> int:
    return zlib.crc32(b"".join(Path(__file__).with_name(name).read_bytes() for name in _COMPILER))


def _find(kernel: Callable[..., Any]) -> Path | None:
    name = _name(kernel)
    paths = (folder / name for folder in _folders(_source(kernel)))
    return next((path for path in paths if os.path.isfile(path)), None)


def _folders(source: str) -> Iterator[Path]:
    """Yield the folders that may have machine code of the kernels of a source, the best one first.

    They are those of Numba, which keeps there what it needs to compile kernels that call others.
    """
    package = _package(source)
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / _folder_name(package)
        return
    yield package / "__pycache__"
    from platformdirs import user_cache_path

    yield user_cache_path("dbsp", appauthor=False) / _folder_name(package)


@cache
def _package(source: str) -> Path:
    return Path(source).parent


def _folder_name(package: Path) -> str:
    return f"{package.name}_{zlib.crc32(os.fsencode(package)):08x}"


def _name(kernel: Callable[..., Any]) -> str:
    module = kernel.__module__.rpartition(".")[2]
    return f"{module}.{kernel.__name__}.{_machine_tag()}-{checksum(kernel):08x}.code"


@cache
def _machine_tag() -> str:
    return f"{sys.implementation.cache_tag}-{zlib.crc32(_machine().encode()):08x}"


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
