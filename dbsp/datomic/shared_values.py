"""The interner that all databases of a process share, so that a query can join them."""

from __future__ import annotations

import threading

from dbsp.data.interner import Interner

SHARED_INTERNER = Interner()
"""The values of all databases; a value keeps its code as long as the process lives."""

SHARED_LOCK = threading.RLock()
"""Held while a thread adds values, changes traces, or evaluates a query."""
