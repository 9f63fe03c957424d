"""Arrays as results of compiled kernels, without a call of Python for each.

Numba's conversion of an array to an object looks up the class of the object by a Python function,
at each call of a kernel: 0.25 us for each array of the result. Here the class is a constant of the
compiled code, as the type of the elements is in Numba, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import boxing, cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.pythonapi import _boxers
from numba.np.numpy_support import as_dtype


@contextmanager
def direct_results() -> Iterator[None]:
    """Compile kernels inside this block with the conversion of this module.

    No other thread compiles meanwhile, so functions of others keep the conversion of Numba.
    """
    with global_compiler_lock:
        usual = boxing.box_array
        _boxers.functions[types.Array] = _array_object
        try:
            yield
        finally:
            _boxers.functions[types.Array] = usual


def _array_object(type_: Any, value: Any, c: Any) -> Any:
    """Generate the code that returns an array as an object, and releases the array."""
    constants = [
        c.env_manager.read_const(c.env_manager.add_const(constant))
        for constant in (type_.box_type, as_dtype(type_.dtype))
    ]
    number = ir.IntType(32)
    kind = ir.FunctionType(c.pyapi.pyobj, [c.pyapi.voidptr, c.pyapi.pyobj, number, number, c.pyapi.pyobj])
    tools: Any = cgutils
    adapt = tools.get_or_insert_function(c.builder.module, kind, "NRT_adapt_ndarray_to_python_acqref")
    address = c.builder.bitcast(tools.alloca_once_value(c.builder, value), c.pyapi.voidptr)
    dimensions, writable = ir.Constant(number, type_.ndim), ir.Constant(number, int(type_.mutable))
    found = c.builder.call(adapt, [address, constants[0], dimensions, writable, constants[1]])
    c.context.nrt.decref(c.builder, type_, value)
    return found
