"""Arrays as arguments and results of compiled kernels.

Callers call the machine code itself, so it checks its arguments: Numba checks them in the function
that chooses between several codes, and no caller calls that. A check takes 2 ns.

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
from numba.core.pythonapi import NativeValue, _boxers, _unboxers
from numba.np.numpy_support import as_dtype

# The fields of arrays and of their element types, in bytes after the head of an object; see
# PyArrayObject_fields and PyArray_Descr in ndarraytypes.h of NumPy.
_DIMENSIONS, _ELEMENTS, _FLAGS = 8, 40, 48
_KIND, _ORDER = 8, 10

_USUAL_FLAGS = 0x1 | 0x100 | 0x400
"""In C order, aligned, writable."""


@contextmanager
def own_conversions() -> Iterator[None]:
    """Compile kernels inside this block with the conversions of this module.

    No other thread compiles meanwhile, so functions of others keep the conversions of Numba.
    """
    with global_compiler_lock:
        _boxers.functions[types.Array] = _array_object
        _unboxers.functions[types.Array] = _array_argument
        try:
            yield
        finally:
            _boxers.functions[types.Array] = boxing.box_array
            _unboxers.functions[types.Array] = boxing.unbox_array


def _array_argument(type_: Any, value: Any, c: Any) -> Any:
    """Generate the code that reads an array from an object, and refuses those of other types."""
    array = c.context.make_array(type_)(c.context, c.builder)
    address = array._getpointer()
    is_other = c.pyapi.nrt_adapt_ndarray_from_python(value, c.builder.bitcast(address, c.pyapi.voidptr))
    elements = as_dtype(type_.dtype)
    byte, number = ir.IntType(8), ir.IntType(32)
    tools: Any = cgutils
    failed = tools.alloca_once_value(c.builder, tools.is_not_null(c.builder, is_other))
    with c.builder.if_then(c.builder.not_(c.builder.load(failed)), likely=True):
        description = _field(c.builder, value, _ELEMENTS, byte.as_pointer())
        flags = _field(c.builder, value, _FLAGS, number)
        for found, expected in (
            (_field(c.builder, value, _DIMENSIONS, number), type_.ndim),
            (c.builder.and_(flags, number(_USUAL_FLAGS)), _USUAL_FLAGS),
            (array.itemsize, elements.itemsize),
            (_field(c.builder, description, _KIND, byte), ord(elements.kind)),
            (_field(c.builder, description, _ORDER, byte), ord(elements.byteorder)),
        ):
            differs = c.builder.icmp_unsigned("!=", found, found.type(expected))
            c.builder.store(c.builder.or_(c.builder.load(failed), differs), failed)
        with c.builder.if_then(c.builder.load(failed), likely=False):
            c.context.nrt.decref(c.builder, type_, c.builder.load(address))
    with c.builder.if_then(c.builder.load(failed), likely=False):
        text = f"expected an array of {elements} with {type_.ndim} dimensions, in C order and writable"
        c.pyapi.err_set_string("PyExc_TypeError", text)
    native: Any = NativeValue
    return native(c.builder.load(address), is_error=c.builder.load(failed))


def _field(builder: Any, value: Any, offset: int, type_: Any) -> Any:
    """Generate the code that reads the field of an object at an offset after its head."""
    start = builder.bitcast(value, ir.IntType(8).as_pointer())
    place = builder.gep(start, [ir.IntType(32)(object.__basicsize__ + offset)])
    return builder.load(builder.bitcast(place, type_.as_pointer()))


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
