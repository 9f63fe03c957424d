"""Errors of the steps of a tick, with the place of their node in the program or the circuit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import RowPlacing
from dbsp.circuit.program_place import ProgramPlace
from dbsp.errors import DbspError, MemoryLimitError, ValueOutOfRangeError, WeightOverflowError
from dbsp.runtime.memory import memory_message

_ROLLED_BACK = "the tick was rolled back"


def overflow_error(error: OverflowError, node: Node | None) -> DbspError:
    """Return the error of a tick for an overflow in a kernel, whose text says its kind."""
    kind, _, text = str(error).partition(": ")
    family = WeightOverflowError if kind == "weight" else ValueOutOfRangeError
    return family(_with_rollback(text or kind, node))


def memory_error(node: Node | None) -> DbspError:
    """Return the error of a tick without enough memory."""
    return MemoryLimitError(_with_rollback(memory_message(), node))


def _with_rollback(message: str, node: Node | None) -> str:
    """Return the message of an error; only a node of a program adds the rollback as a note."""
    in_program = node is not None and isinstance(node.source, ProgramPlace)
    return message if in_program else f"{message}; {_ROLLED_BACK}"


def located(error: DbspError, node: Node | None, outermost: bool) -> DbspError:
    """Add the place to the error of a node: in the program text, or the node.

    The scope of an `outermost` node is in no other scope.
    """
    if node is not None and error.where in (None, node.describe()):
        if isinstance(node.source, ProgramPlace):
            error.locate(node.source.diagnostic(error.message, error.code))
        else:
            error.where = _computing(node).describe()
    if error.diagnostic is not None and outermost and _ROLLED_BACK not in error.message:
        error.diagnostic = error.diagnostic.with_note(_ROLLED_BACK)
    return error


def _computing(node: Node) -> Node:
    """Return the node that has computed the rows which a node places."""
    while isinstance(node.operator, RowPlacing):
        node = node.inputs[0].node
    return node


@contextlib.contextmanager
def without_rollback() -> Iterator[None]:
    """Leave the rollback of the tick out of the errors of a block whose caller knows of no tick."""
    try:
        yield
    except DbspError as error:
        error.message = error.message.removesuffix(f"; {_ROLLED_BACK}")
        found = error.diagnostic
        if found is not None:
            notes = [note for note in (found.note or "").split("\n") if note not in ("", _ROLLED_BACK)]
            error.diagnostic = replace(found, message=error.message, note="\n".join(notes) or None)
        raise
