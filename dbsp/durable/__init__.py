"""Durable runs: a folder from which a run goes on where it was, tick by tick."""

from dbsp.durable.store import Store

__all__ = ["Store"]
