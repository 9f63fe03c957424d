"""Incremental dataflow circuits: queries whose results follow their changing inputs.

>>> import dbsp
>>> program = dbsp.compile('''
...     .decl edge(x: number, y: number)
...     .input edge
...     .decl path(x: number, y: number)
...     .output path
...     path(x, y) :- edge(x, y).
...     path(x, z) :- path(x, y), edge(y, z).
... ''')
>>> run = program.start()
>>> run.step({"edge": {(1, 2): +1, (2, 3): +1}})["path"].to_dict()
{(1, 2): 1, (1, 3): 1, (2, 3): 1}
>>> run.step({"edge": {(1, 2): -1}})["path"].to_dict()
{(1, 2): -1, (1, 3): -1}
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from os import path as _path
from typing import TYPE_CHECKING, Any

from dbsp.runtime import checkpoints

for _name in ("operators", "compiler"):
    _folder = _path.join(_path.dirname(__file__), _name)
    if not _path.exists(_folder):
        raise ImportError(
            f"dbsp/{_name} is missing: install the unpacked source distribution with pip install ."
        )
    if _path.isfile(_folder):  # git's text file in place of a link
        raise ImportError(
            f"dbsp/{_name} is a file instead of a link to ../{_name}: this clone has no symbolic links. "
            "Enable them (on Windows, in developer mode) and check the links out again:\n"
            "    git config core.symlinks true\n"
            "    git checkout -- dbsp/operators dbsp/compiler"
        )

if TYPE_CHECKING:
    from pathlib import Path

    # Modules are not in __all__: `from dbsp import *` would import them.
    from dbsp import datomic as datomic
    from dbsp import inspector as inspector
    from dbsp import spark as spark
    from dbsp.circuit import drawing
    from dbsp.compiler.compile import compile
    from dbsp.compiler.program import Program
    from dbsp.data.indexed_zset import IndexedZSet
    from dbsp.data.prefix_extender import PrefixExtender, extend_prefixes
    from dbsp.data.schema import Schema
    from dbsp.data.terms import Branch, Record
    from dbsp.data.zset import ZSet
    from dbsp.errors import (
        ArgumentError,
        CheckpointError,
        CircuitError,
        CompileError,
        DbspError,
        EdnError,
        EvaluationError,
        InputError,
        InvariantError,
        IterationLimitError,
        MemoryLimitError,
        SchemaError,
        SetupError,
        ShardError,
        SparkError,
        UserFunctionError,
        ValueOutOfRangeError,
        WeightOverflowError,
    )
    from dbsp.expressions import coalesce, col, lit, when
    from dbsp.io.csv_rows import read_csv
    from dbsp.io.database_rows import read_database
    from dbsp.io.ndjson_rows import read_ndjson
    from dbsp.io.parquet_rows import read_parquet
    from dbsp.kernels.thread_count import set_threads, threads
    from dbsp.operators.streams.aggregate_calls import (
        count,
        fold,
        linear,
    )
    from dbsp.operators.streams.builder import Circuit
    from dbsp.operators.streams.circuit_reader import from_json, from_networkx
    from dbsp.operators.streams.multiway_atoms import multiway_join
    from dbsp.operators.streams.stream import Stream
    from dbsp.runtime.run import Run
    from dbsp.runtime.tick_result import TickResult

    draw = drawing

__version__ = "0.1.0"

# Names are imported on first use: importing a lower layer must not load the layers above it, and
# `import dbsp` must not pay for modules that the program does not use.
_HOME = {
    "dbsp.compiler.compile": ("compile",),
    "dbsp.compiler.program": ("Program",),
    "dbsp.errors": (
        "ArgumentError",
        "CheckpointError",
        "CircuitError",
        "CompileError",
        "DbspError",
        "EdnError",
        "EvaluationError",
        "InputError",
        "InvariantError",
        "IterationLimitError",
        "MemoryLimitError",
        "SchemaError",
        "SetupError",
        "ShardError",
        "SparkError",
        "UserFunctionError",
        "ValueOutOfRangeError",
        "WeightOverflowError",
    ),
    "dbsp.expressions": ("coalesce", "col", "lit", "when"),
    "dbsp.io.csv_rows": ("read_csv",),
    "dbsp.io.database_rows": ("read_database",),
    "dbsp.io.ndjson_rows": ("read_ndjson",),
    "dbsp.io.parquet_rows": ("read_parquet",),
    "dbsp.data.indexed_zset": ("IndexedZSet",),
    "dbsp.kernels.thread_count": ("set_threads", "threads"),
    "dbsp.operators.streams.multiway_atoms": ("multiway_join",),
    "dbsp.operators.streams.builder": ("Circuit",),
    "dbsp.operators.streams.stream": ("Stream",),
    "dbsp.operators.streams.aggregate_calls": (
        "count",
        "fold",
        "linear",
    ),
    "dbsp.operators.streams.circuit_reader": ("from_json", "from_networkx"),
    "dbsp.data.prefix_extender": ("PrefixExtender", "extend_prefixes"),
    "dbsp.runtime.run": ("Run",),
    "dbsp.runtime.tick_result": ("TickResult",),
    "dbsp.data.schema": ("Schema",),
    "dbsp.data.terms": ("Branch", "Record"),
    "dbsp.data.zset": ("ZSet",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_MODULES = {
    "datomic": "dbsp.datomic",
    "draw": "dbsp.circuit.drawing",
    "inspector": "dbsp.inspector",
    "spark": "dbsp.spark",
}

__all__ = [
    "ArgumentError",
    "Branch",
    "CheckpointError",
    "Circuit",
    "CircuitError",
    "CompileError",
    "DbspError",
    "EdnError",
    "EvaluationError",
    "IndexedZSet",
    "InputError",
    "InvariantError",
    "IterationLimitError",
    "MemoryLimitError",
    "PrefixExtender",
    "Program",
    "Record",
    "Run",
    "Schema",
    "SchemaError",
    "SetupError",
    "ShardError",
    "SparkError",
    "Stream",
    "TickResult",
    "UserFunctionError",
    "ValueOutOfRangeError",
    "WeightOverflowError",
    "ZSet",
    "__version__",
    "coalesce",
    "col",
    "compile",
    "count",
    "extend_prefixes",
    "fold",
    "from_json",
    "from_networkx",
    "linear",
    "lit",
    "multiway_join",
    "read_csv",
    "read_database",
    "read_ndjson",
    "read_parquet",
    "set_threads",
    "threads",
    "when",
]


if not TYPE_CHECKING:  # a type checker reports unknown names itself

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        module = _MODULE_OF.get(name)
        if module is None:
            raise _unknown(name)
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def _unknown(name: str) -> Exception:
    # `from dbsp import kernels` needs an error here before it imports the module.
    if not name.startswith("_") and find_spec(f"dbsp.{name}") is None:
        advice = import_module("dbsp.expressions.foreign_names").FUNCTIONS.get(name)
        if advice is not None:  # `from dbsp import name` would hide the text of an AttributeError
            return ImportError(f"dbsp has no '{name}'; write {advice} in group_by(...).agg(...)")
    return AttributeError(f"module 'dbsp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


def _open_folder(folder: Path) -> checkpoints.Checkpoint:
    store: checkpoints.Checkpoint = import_module("dbsp.durable").Store(folder)
    return store


checkpoints.register_opener(_open_folder)
