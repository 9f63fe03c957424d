"""Durable runs: a folder from which a run goes on where it was, tick by tick."""

from dbsp.durable.state import signature
from dbsp.durable.store import Store, as_store

__all__ = ["Store", "as_store", "signature"]
