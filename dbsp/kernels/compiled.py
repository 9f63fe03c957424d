"""Kernels compiled to machine code by Numba. Importing this module takes a quarter of a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from llvmlite import binding
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.environment import Environment
from numba.core.runtime import _nrt_python
from numba.core.runtime.nrt import rtsys

from dbsp.deferred_signals import call_undisturbed
from dbsp.errors import InvariantError
from dbsp.kernels import intrinsics
from dbsp.kernels.jit import ENTRIES, KERNELS, OPERATIONS

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


class _KernelCache(FunctionCache):
    """The machine code of a kernel on disk, loaded without what only compilation needs.

    Numba imports and registers all types and functions that it can compile, before it loads any
    machine code. That takes a quarter of a second, more if SciPy is installed, and 25 MB. A
    compilation does it anyway.
    """

    def __init__(self, copy: FunctionType, kernel: Callable[..., Any]) -> None:
        super().__init__(copy)  # type: ignore[no-untyped-call]
        self._kernel = kernel

    @property
    def index(self) -> Path:
        """The file that names the file with the machine code."""
        return Path(self._cache_file._index_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _find_runtime()
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None:  # such as the code for another processor
            _link(self._kernel)
        return found


@cache
def _find_runtime() -> None:
    """Let machine code from disk call the functions of Numba's runtime that are written in C.

    Numba also compiles the others, in each process; `_CodeOnly` makes sure that kernels have theirs.
    """
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class _CodeOnly(CompileResultCacheImpl):
    """Writes machine code without what only compilation needs: bitcode and global names.

    The compiler links the bitcode into callers.
    """

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        # If a kernel calls it one day, this file must not be found.
        return f"{super().get_filename_base(fullname, abiflags)}-code"  # type: ignore[no-untyped-call]

    def reduce(self, data: Any) -> Any:
        kept = super().reduce(data)  # type: ignore[no-untyped-call]
        (name, kind, (code, _)), described, own, *others, referenced = kept
        needed = {one.name for one in data.library._final_module.functions if one.is_declaration}
        for one in rtsys.library.get_defined_functions():
            if one.name in needed:
                raise InvariantError(f"the machine code of {name} calls {one.name} outside of it")
        # Numba reads in the bitcode which functions the machine code has.
        functions = f'define void @"{data.fndesc.llvm_cpython_wrapper_name}"() {{ ret void }}'
        bitcode = binding.parse_assembly(functions).as_bitcode()
        environments = tuple(map(_without_globals, referenced))
        return (name, kind, (code, bitcode)), described, _without_globals(own), *others, environments


def _without_globals(environment: Environment) -> Environment:
    """Return this environment of machine code with the global names of this module.

    Machine code that uses no Python objects reads none. Numba imports the module of each environment,
    among them those that compile operations on arrays and strings.
    """
    light = Environment(globals())
    light.env_name = environment.env_name
    light.consts[:] = environment.consts
    return light


class _CodeOnlyCache(_KernelCache):
    """For a kernel that no other one calls: its load takes a third of the time and memory."""

    _impl_class = _CodeOnly  # type: ignore[assignment]


class _CallCache(_CodeOnlyCache):
    """For the calls of a kernel that other kernels call, too: theirs needs the bitcode."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context) if is_cached(self._kernel) else None
        if found is None:
            compile_kernel(self._kernel)
            if sig != signature_of(self._kernel):  # a caller breaks the rule for arguments
                _link(self._kernel)
                compiled(self._kernel).compile(sig)
            found = compiled(self._kernel).overloads[sig]
            found = found._replace(metadata=None)  # as of code from disk: Numba times it once
        return found


def signature_of(kernel: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the types of the arguments of a kernel, from its annotations."""
    annotations = kernel.__annotations__
    return tuple(_TYPES[annotation] for name, annotation in annotations.items() if name != "return")


@cache
def compiled(kernel: Callable[..., Any]) -> Any:
    """Return the compiled form of a kernel: its first call loads it, or compiles it.

    The plain function stays as it is, with the plain functions that it calls. The compiled form is
    a copy of it, in whose global names the kernels and operations are the compiled ones (`_link`).
    """
    code_only = kernel in ENTRIES and kernel not in _called_entries()
    return _compiled(kernel, _CodeOnlyCache if code_only else _KernelCache)


@cache
def compiled_for_calls(kernel: Callable[..., Any]) -> Any:
    """Return the compiled form for calls from Python: it loads no code that only kernels call."""
    return _compiled(kernel, _CallCache) if kernel in _called_entries() else compiled(kernel)


def _compiled(kernel: Callable[..., Any], kind: type[_KernelCache]) -> Any:
    assert isinstance(kernel, FunctionType)
    names = {"__name__": kernel.__module__}
    copy = FunctionType(kernel.__code__, names, kernel.__name__, kernel.__defaults__)
    copy.__qualname__, copy.__doc__ = kernel.__qualname__, kernel.__doc__
    njit: Any = numba.njit  # its type omits `no_cfunc_wrapper`: nobody calls kernels from C
    dispatcher = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(copy)
    dispatcher._cache = kind(copy, kernel)
    find = dispatcher._compile_for_args

    def compile_for_call(*arguments: Any) -> Any:
        with _compiling:
            if not is_cached(kernel):
                compile_kernel(kernel)
            return find(*arguments)

    # After an exception at some places of its loader, Numba can load no kernel any more.
    dispatcher._compile_for_args = partial(call_undisturbed, compile_for_call)
    return dispatcher


def compile_kernel(kernel: Callable[..., Any]) -> None:
    """Compile a kernel and the kernels that it calls, or load them from the cache.

    Each is compiled for its own signature only. Else Numba compiles `f(0)` apart from `f(n)`.
    """
    # For all threads: meanwhile, the called kernels must not be compiled for other types.
    with _compiling:
        _compile(kernel)


def _compile(kernel: Callable[..., Any]) -> None:
    dispatcher = compiled(kernel)
    if dispatcher.signatures:
        return
    called = [compiled(callee) for callee in _called(kernel)]
    for callee in _called(kernel):
        _compile(callee)
    try:
        for other in called:
            other.disable_compile()
        if is_cached(kernel):
            dispatcher.compile(signature_of(kernel))
        else:
            from dbsp.kernels.array_results import direct_results

            if not _forget(dispatcher):
                dispatcher._cache = NullCache()
            _link(kernel)
            with direct_results():
                dispatcher.compile(signature_of(kernel))
            for_calls = compiled_for_calls(kernel)
            if for_calls is not dispatcher and _forget(for_calls):
                for_calls._cache.save_overload(signature_of(kernel), *dispatcher.overloads.values())
    finally:
        for other in called:
            other.disable_compile(False)


def _link(kernel: Callable[..., Any]) -> None:
    """Give the compiled form of a kernel its global names: only a compilation needs them."""
    compiled(kernel).py_func.__globals__.update(
        (name, _compiled_form(value)) for name, value in _globals_of(kernel)
    )


@cache
def callees(kernel: Callable[..., Any]) -> frozenset[Callable[..., Any]]:
    """Return the kernels that a kernel calls, and those that they call."""
    called = frozenset(_called(kernel))
    return called.union(*map(callees, called))


def cache_folder() -> Path:
    """Return the folder with the machine code of the kernels."""
    return Path(compiled(KERNELS[0]).stats.cache_path)


@cache
def _called_entries() -> frozenset[Callable[..., Any]]:
    """Return the entries that kernels call, too."""
    called: set[Callable[..., Any]] = set().union(*map(_called, KERNELS))
    return frozenset(called.intersection(ENTRIES))


def _called(kernel: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [value for _, value in _globals_of(kernel) if isinstance(value, FunctionType) and value in KERNELS]


def _globals_of(kernel: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    assert isinstance(kernel, FunctionType)
    for name in kernel.__code__.co_names:
        if name in kernel.__globals__:
            yield name, kernel.__globals__[name]


def _compiled_form(value: Any) -> Any:
    if isinstance(value, FunctionType) and value in KERNELS:
        return compiled(value)
    if isinstance(value, FunctionType) and value in OPERATIONS:
        return getattr(intrinsics, value.__name__)
    return value


def is_cached(kernel: Callable[..., Any]) -> bool:
    """Return whether the machine code of a kernel is on disk, and not older than its source.

    Machine code includes that of the kernels which it calls, so their sources count as well.
    """
    for form in {compiled(kernel), compiled_for_calls(kernel)}:
        kept = form._cache
        if not isinstance(kept, _KernelCache):  # this process may not write machine code
            return False
        try:
            written = os.stat(kept.index).st_mtime
        except FileNotFoundError:
            return False
        if written < _changed(kernel):
            return False
    return True


@cache
def _changed(kernel: Callable[..., Any]) -> float:
    """Return when the sources of a kernel and of those that it calls changed last."""
    return max(map(_file_changed, {each.__code__.co_filename for each in (kernel, *callees(kernel))}))


@cache
def _file_changed(source: str) -> float:
    return os.stat(source).st_mtime


def _forget(form: Any) -> bool:
    """Keep Numba from loading old machine code: it does not notice that a called kernel changed.

    Returns whether this process may write new machine code.
    """
    try:
        form._cache.index.unlink(missing_ok=True)
    except OSError:
        return False
    return True
