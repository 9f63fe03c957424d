"""A slow evaluator of Datomic's query language, the reference for the engine.

Written from Datomic's query reference: nested loops over lists of datoms. It shares the EDN reader
with dbsp and nothing else.
"""

from .answer import answer, rows
from .model import Fact, Model, Source
from .query import RefusedError

__all__ = ["Fact", "Model", "RefusedError", "Source", "answer", "rows"]
