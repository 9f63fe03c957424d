"""Whether a checkpoint belongs to the query to start, and whether its circuit can be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbsp.circuit.value_json import MissingPartError
from dbsp.durable.manifest import Manifest
from dbsp.errors import CheckpointError, CircuitError


def expect_query(folder: Path, manifest: Manifest, query: str) -> None:
    """Raise CheckpointError unless a manifest is of this query, given by its identity."""
    if manifest.query != query:
        update = "" if manifest.source is None else "start this one with update=True, "
        raise CheckpointError(
            f"{folder} is the checkpoint of another query ('{manifest.name}'); "
            f"start the same query, {update}or choose another folder",
            code="checkpoint-other-program",
        )


@contextmanager
def starting(folder: Path, circuit: str | None) -> Iterator[None]:
    """Report a circuit of a snapshot, as JSON, that cannot be started."""
    try:
        yield
    except MissingPartError as error:
        if circuit is None:
            raise
        raise CheckpointError(
            f"{folder} is the checkpoint of a circuit with {error.part}, which the circuit to start"
            " does not have; start the circuit that wrote it, or choose another folder",
            code="checkpoint-other-program",
        ) from None
    except CircuitError as error:
        if circuit is None:
            raise
        raise CheckpointError(
            f"cannot read the circuit of {folder}: {error.message}. Continue with"
            " the version of dbsp that wrote it, or start in an empty folder",
            code="checkpoint-version",
        ) from None
