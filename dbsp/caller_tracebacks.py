"""Tracebacks that end at the line of the caller.

A traceback through the scheduler, a fixpoint and a kernel helps developers of dbsp only: the error
already names the operator, the source line and the row. So the public functions that a mistake of
the caller ends in remove the frames of dbsp, and of the libraries that it calls, from the error:

    Traceback (most recent call last):
      File "etl.py", line 12, in <module>
        run.step({"sale": [("seven",)]})
    dbsp.errors.InputError: ...

Functions of the caller that dbsp calls, such as the function of a `map`, stay in the traceback, and
so does the exception that they raised. Defects of dbsp, and exceptions outside the family of
`DbspError`, keep every frame. So does everything if the environment variable `DBSP_FULL_TRACEBACK`
is set to anything but `0`.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, FunctionType, TracebackType
from typing import ParamSpec, TypeVar

from dbsp.errors import DbspError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SWITCH = "DBSP_FULL_TRACEBACK"
"""The environment variable that keeps tracebacks whole."""

_PACKAGE = __name__.partition(".")[0]
_LIBRARIES = {"lark", "networkx", "numba", "numpy", "pandas", "polars", "pyarrow", "re2", "scipy"}
_INTERNAL = {_PACKAGE, *_LIBRARIES, *sys.stdlib_module_names} - {"__main__"}


def is_own(frame: FrameType) -> bool:
    """Return whether a frame belongs to dbsp: its globals do, whatever the file is called."""
    return _top_package(frame) == _PACKAGE


def _top_package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def ends_at_caller(function: Callable[P, R]) -> Callable[P, R]:
    """Make the traceback of a DbspError that leaves this function end at the caller's line."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DbspError as error:
            shorten_traceback(error)
            raise  # without arguments: Python adds no frame to the traceback of an error raised again

    return call


def methods_end_at_caller(cls: type[T]) -> type[T]:
    """Apply `ends_at_caller` to the public methods that a class defines, operators included."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and not name.endswith("__"):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(cls, name, type(member)(ends_at_caller(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(cls, name, ends_at_caller(member))
    return cls


def shorten_traceback(error: DbspError) -> None:
    """Remove internal frames from the traceback of an error that the caller may have caused.

    The frames of functions of the caller stay. The exceptions that the error comes from keep the
    frames from the first one of the caller on.
    """
    if error.defect or os.environ.get(SWITCH, "0") != "0":
        return
    error.__traceback__ = _chain([entry for entry in _entries(error) if not _internal(entry)])
    seen: list[BaseException] = [error]
    while (cause := seen[-1].__cause__) is not None and cause not in seen:
        cause.__traceback__ = _chain(list(itertools.dropwhile(_internal, _entries(cause))))
        seen.append(cause)


def _internal(entry: TracebackType) -> bool:
    return _top_package(entry.tb_frame) in _INTERNAL


def _entries(error: BaseException) -> Iterator[TracebackType]:
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _chain(entries: Sequence[TracebackType]) -> TracebackType | None:
    """Return a traceback of these entries."""
    chain = None
    for entry in reversed(entries):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain
