"""Errors from a shard to the coordinator, with their causes.

Pickle drops the cause of an exception, and some exceptions cannot be pickled or read back; such a
one travels as the text of its traceback.
"""

from __future__ import annotations

import itertools
import pickle
import traceback

from dbsp.deferred_signals import interrupt_behind
from dbsp.errors import DbspError


class ShardTracebackError(Exception):
    """An exception of a shard that cannot be pickled; the text is its traceback."""


def ship_error(error: BaseException) -> bytes:
    """Return an error and its causes as bytes, for `receive_error`.

    An abort that Numba has reported as another error travels as the abort.
    """
    shipped: list[bytes] = []
    seen: set[int] = set()
    cause: BaseException | None = interrupt_behind(error)
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        shipped.append(_pickled(cause))
        cause = cause.__cause__
    return pickle.dumps(shipped)


def receive_error(data: bytes) -> BaseException:
    """Return the error of `ship_error`, with its causes."""
    chain: list[BaseException] = []
    for pickled in pickle.loads(data):
        try:
            chain.append(pickle.loads(pickled))
        except Exception as error:  # an exception of the user may fail in its constructor, too
            chain.append(ShardTracebackError(f"an exception of a shard cannot be read: {error}"))
    for raised, cause in itertools.pairwise(chain):
        raised.__cause__ = cause
    return chain[0]


def _pickled(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False))
    if not isinstance(error, DbspError) or error.defect:
        error.add_note(f"in a shard:\n{text}")
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # whatever the methods of the user's exception raise
        return pickle.dumps(ShardTracebackError(text))
    return data
