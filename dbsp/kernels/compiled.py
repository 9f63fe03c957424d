"""Kernels compiled to machine code by Numba. Importing this module takes a quarter of a second.

Only a process that compiles imports it: `dbsp.kernels.code_loader` loads machine code from disk.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache

from dbsp.errors import InvariantError
from dbsp.kernels import intrinsics
from dbsp.kernels.array_conversions import own_conversions
from dbsp.kernels.code_files import KernelCode, cache_folder, checksum, is_cached, write_code
from dbsp.kernels.code_loader import runtime_symbols
from dbsp.kernels.jit import ENTRIES, KERNELS, OPERATIONS, called_by, globals_of

_TYPES: dict[str, Any] = {
    "Rows": types.Array(types.int64, 2, "C"),
    "Codes": types.Array(types.int64, 1, "C"),
    "Words": types.Array(types.uint64, 1, "C"),
    "Pointer": types.CPointer(types.int64),  # type: ignore[no-untyped-call]
    "RunCodes": intrinsics.RUN_CODES,
    "Mask": types.Array(types.bool_, 1, "C"),
    "int": types.int64,
    "float": types.float64,
    "bool": types.bool_,
}

_compiling = threading.RLock()


class _EntryCache(NullCache):
    """For a kernel that no other one calls: only its machine code is kept."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        super().__init__()
        self._kernel = kernel

    def save_overload(self, sig: Any, data: Any) -> None:
        _write(self._kernel, data)


class _NamedFiles(CompileResultCacheImpl):
    """Files whose names have the checksum of a kernel: Numba looks at the time of one source."""

    def __init__(self, kernel: Callable[..., Any], copy: FunctionType) -> None:
        self._kernel = kernel
        super().__init__(copy)  # type: ignore[no-untyped-call]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        name = super().get_filename_base(fullname, abiflags)  # type: ignore[no-untyped-call]
        return f"{name}-{checksum(self._kernel):08x}"


class _CalleeCache(FunctionCache):
    """For a kernel that others call: its bitcode is kept, which the compiler links into callers."""

    def __init__(self, copy: FunctionType, kernel: Callable[..., Any]) -> None:
        self._impl_class = partial(_NamedFiles, kernel)  # type: ignore[assignment]
        super().__init__(copy)  # type: ignore[no-untyped-call]
        self._kernel = kernel

    def forget(self) -> None:
        """Make the next compilation write the machine code, too."""
        Path(self._cache_file._index_path).unlink(missing_ok=True)

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        if self._kernel in ENTRIES:
            _write(self._kernel, data)


def signature_of(kernel: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the types of the arguments of a kernel, from its annotations."""
    annotations = kernel.__annotations__
    return tuple(_TYPES[annotation] for name, annotation in annotations.items() if name != "return")


def compiled_function(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a kernel, compiled in this process: as one from disk (`load`).

    A kernel that only other kernels call has none.
    """
    assert not _is_inner(kernel), f"{kernel.__name__} has no function for Python"
    compile_kernel(kernel)
    (result,) = _compiled(kernel).overloads.values()
    function: Callable[..., Any] = result.entry_point
    return function


def compile_kernel(kernel: Callable[..., Any]) -> None:
    """Compile a kernel and the kernels that it calls, and write the machine code.

    Each is compiled for its own signature only. Else Numba compiles `f(0)` apart from `f(n)`.
    """
    # For all threads: meanwhile, the called kernels must not be compiled for other types.
    with _compiling:
        _compile(kernel)


def _compile(kernel: Callable[..., Any]) -> None:
    dispatcher = _compiled(kernel)
    if dispatcher.signatures:
        return
    called = [_compiled(callee) for callee in called_by(kernel)]
    for callee in called_by(kernel):
        _compile(callee)
    try:
        for other in called:
            other.disable_compile()
        kept = dispatcher._cache
        if isinstance(kept, _CalleeCache) and kernel in ENTRIES and not is_cached(kernel):
            kept.forget()
        _link(kernel)
        with own_conversions():
            dispatcher.compile(signature_of(kernel))
    finally:
        for other in called:
            other.disable_compile(False)


@cache
def _compiled(kernel: Callable[..., Any]) -> Any:
    """Return Numba's form of a kernel.

    The plain function stays as it is, with the plain functions that it calls. The compiled form is
    a copy of it, in whose global names the kernels and operations are the compiled ones (`_link`).
    """
    assert isinstance(kernel, FunctionType)
    names = {"__name__": kernel.__module__}
    copy = FunctionType(kernel.__code__, names, kernel.__name__, kernel.__defaults__)
    copy.__qualname__, copy.__doc__ = kernel.__qualname__, kernel.__doc__
    njit: Any = numba.njit  # its type omits some options
    # Nobody calls kernels from C.
    wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": _is_inner(kernel)}
    dispatcher = njit(nogil=True, error_model="numpy", **wrappers)(copy)
    kept = kernel in _callees() and cache_folder(kernel.__code__.co_filename) is not None
    dispatcher._cache = _CalleeCache(copy, kernel) if kept else _EntryCache(kernel)
    return dispatcher


def _link(kernel: Callable[..., Any]) -> None:
    """Give the compiled form of a kernel its global names."""
    _compiled(kernel).py_func.__globals__.update(
        (name, _compiled_form(value)) for name, value in globals_of(kernel)
    )


def _compiled_form(value: Any) -> Any:
    if isinstance(value, FunctionType) and value in KERNELS:
        return _compiled(value)
    if isinstance(value, FunctionType) and value in OPERATIONS:
        return getattr(intrinsics, value.__name__)
    return value


def _is_inner(kernel: Callable[..., Any]) -> bool:
    """Return whether only other kernels call this one."""
    return kernel in _callees() and kernel not in ENTRIES


@cache
def _callees() -> frozenset[Callable[..., Any]]:
    """Return the kernels that other kernels call."""
    return frozenset[Callable[..., Any]]().union(*map(called_by, KERNELS))


def _write(kernel: Callable[..., Any], result: Any) -> None:
    """Write the machine code of a kernel that Numba has compiled."""
    described, library, environment = result.fndesc, result.library, result.environment
    for used in library._final_module.functions:
        if used.is_declaration and not _is_found(used.name):
            name = kernel.__name__
            raise InvariantError(f"the machine code of the kernel {name} uses {used.name}, which nothing has")
    _, _, (code, _) = library.serialize_using_object_code()
    function = described.llvm_cpython_wrapper_name
    write_code(kernel, KernelCode(code, function, environment.env_name, environment.consts))


def _is_found(symbol: str) -> bool:
    """Return whether machine code finds a function when it is loaded; LLVM has its own ones."""
    return symbol.startswith("llvm.") or symbol in runtime_symbols() or hasattr(ctypes.pythonapi, symbol)
