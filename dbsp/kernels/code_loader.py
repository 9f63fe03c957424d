"""Load the machine code of kernels into this process, without the compiler.

Machine code calls functions of Numba that are written in C. They are in three modules, which need
nothing else of Numba: the package takes a quarter of a second to import, and 25 MB.
"""

from __future__ import annotations

import builtins
import ctypes
import pickle
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from llvmlite import binding

from dbsp.errors import expect_present
from dbsp.kernels.code_files import KernelCode, read_code

_loading = threading.Lock()


def load(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function of a kernel with machine code from disk; None if it must be compiled.

    It takes exactly the arguments that the annotations of the kernel say, by position.
    """
    with _loading:
        code = read_code(kernel)
        return None if code is None else _function(kernel, code)


@cache
def runtime_symbols() -> dict[str, int]:
    """Return the addresses that machine code finds by name, besides those of the interpreter."""
    found = {"_Py_NoneStruct": id(None)}
    for name in ("_helperlib", "_dynfunc"):
        found |= {f"numba_{key}": value for key, value in _extension(name).c_helpers.items()}
    for key, value in _extension("core.runtime._nrt_python").c_helpers.items():
        found[key if key.startswith("_") else f"NRT_{key}"] = value
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            found[f"PyExc_{name}"] = id(value)
    return found


def _function(kernel: Callable[..., Any], code: KernelCode) -> Callable[..., Any]:
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code.object_code))
    # Numba's function, which machine code calls to make an exception, imports the whole package.
    binding.add_symbol("numba_unpickle", ctypes.cast(_UNPICKLE, ctypes.c_void_p).value)
    try:
        engine.finalize_object()
    finally:
        binding.add_symbol("numba_unpickle", _extension("_helperlib").c_helpers["unpickle"])
    dynamic = _extension("_dynfunc")
    environment = dynamic.Environment({})
    environment.consts[:] = code.constants
    place = engine.get_global_value_address(code.environment)
    ctypes.c_void_p.from_address(place).value = id(environment)
    address = engine.get_function_address(code.function)
    module = sys.modules[kernel.__module__]
    found: Callable[..., Any] = dynamic.make_function(
        module, kernel.__name__, kernel.__doc__ or "", address, environment, (engine, environment)
    )
    return found


@cache
def _engine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name, address in runtime_symbols().items():
        binding.add_symbol(name, address)
    target = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target)


def _extension(name: str) -> ModuleType:
    """Return a module of Numba that is written in C, without an import of its package."""
    full = f"numba.{name}"
    if full not in sys.modules:
        package = expect_present(find_spec("numba"), "the package numba")
        folder = expect_present(package.submodule_search_locations, "the folder of numba")[0]
        for parent in name.split(".")[:-1]:
            folder = f"{folder}/{parent}"
        found = expect_present(PathFinder.find_spec(full, [folder]), full)
        module = module_from_spec(found)
        expect_present(found.loader, full).exec_module(module)
        # A later import of the package uses this module.
        sys.modules[full] = module
    return sys.modules[full]


def _unpickle(address: int, size: int, digest: int) -> Any:
    """Return the class and the arguments of an exception, from the constants of machine code."""
    return pickle.loads(ctypes.string_at(address, size))


_UNPICKLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_unpickle)
