"""The parts of a pipeline: its operators, DataFrames, circuit, run and driver.

The settings of a source or sink come from its operator in the circuit, if there is a `SparkSource`
or `SparkSink`, and from the calls of the pipeline, which take precedence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbsp.compiler.program import Program
from dbsp.data.schema import Schema, suggestion
from dbsp.durable import Store
from dbsp.errors import CheckpointError, DbspError, InputError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.streams.builder import Circuit
from dbsp.operators.streams.spark_pair import bind_ports, plain_ports
from dbsp.runtime.run import Run
from dbsp.spark.checked_files import CheckedFile
from dbsp.spark.driver import Driver
from dbsp.spark.pipeline_options import cut_of, memory_limit, shards_of, snapshot_every, synced
from dbsp.spark.port_binding import check_frame, sink_struct
from dbsp.spark.row_order import RowOrder, row_order
from dbsp.spark.sink_opening import BoundSink
from dbsp.spark.spark_types import struct_of
from dbsp.spark.targets import target_of


@dataclass
class SourceSettings:
    """A call of `Pipeline.source`; `given` has the settings of the operator that the call names."""

    frame: Any
    given: dict[str, Any]
    key: tuple[str, ...] = ()
    event_time: str = ""


@dataclass
class SinkSettings:
    """A call of `Pipeline.sink`; `given` has the settings of the operator that the call names."""

    output: str
    target: Any
    given: dict[str, Any]
    schema: Any = None


@dataclass
class PipelineParts:
    """The settings of a pipeline, and what follows from them."""

    program: Program | Circuit
    sources: dict[str, SourceSettings] = field(default_factory=dict)
    sinks: dict[str, SinkSettings] = field(default_factory=dict)
    """By the name of the sink."""
    options: dict[str, Any] = field(default_factory=dict)
    query_name: str | None = None
    form: str = ""
    """The format of new tables; "" for the default of the session."""
    encoding: str = ""
    """The encoding of sinks without one; "" for that of their operator."""

    # --- operators -------------------------------------------------------------------------------

    @cached_property
    def _query(self) -> Circuit:
        program = self.program
        return program if isinstance(program, Circuit) else program.circuit_for(program.plans)

    def _operators(self, kind: type) -> list[Any]:
        return [node.operator for node in self._query.nodes if isinstance(node.operator, kind)]

    @property
    def outputs(self) -> list[str]:
        """The names of the program's outputs."""
        return list(dict.fromkeys(operator.relation for operator in self._operators(Output)))

    def source_operators(self) -> dict[str, SparkSource]:
        """Return the operator of every source. Raises InputError for an unknown input."""
        inputs = {operator.relation: operator for operator in self._operators(Input)}
        found = {name: port for name, port in inputs.items() if isinstance(port, SparkSource)}
        for name, settings in self.sources.items():
            if name not in inputs:
                raise InputError(f"unknown input '{name}'{suggestion(name, inputs)}", code="unknown-input")
            port = inputs[name]
            changed = dict(settings.given)
            if settings.key:
                changed |= {"kind": "key", "key": port.columns.indices(settings.key)}
            if not isinstance(port, SparkSource):
                ports = {"kind": port.kind, "key": port.key} | changed
                found[name] = SparkSource(name, port.columns, **ports)
            else:
                found[name] = replace(port, **changed)
        return {name: found[name] for name in inputs if name in found}

    def sink_operators(self) -> dict[str, SparkSink]:
        """Return the operator of every sink by name. Raises InputError for an unknown output."""
        outputs = self._operators(Output)
        found: dict[str, SparkSink] = {}
        for port in outputs:
            if isinstance(port, SparkSink):
                if port.sink in found:
                    raise InputError(
                        f"the circuit has two sinks '{port.sink}'; give one of them another sink_name",
                        code="duplicate-name",
                    )
                found[port.sink] = port
        known = self.outputs
        for name, settings in self.sinks.items():
            output = settings.output
            if output not in known:
                raise InputError(
                    f"unknown output '{output}'{suggestion(output, known)}", code="unknown-output"
                )
            present = found.get(name, SparkSink(output, encoding=self.encoding or "weight", sink_name=name))
            if present.relation != output:
                raise InputError(
                    f"the sink '{name}' of the circuit belongs to the output '{present.relation}', not to"
                    f" '{output}'; choose another name=...",
                    code="duplicate-name",
                )
            found[name] = replace(present, **settings.given)
        return found

    @property
    def shards(self) -> int | None:
        """The number of shards; None for a pipeline in this process. Raises InputError."""
        return shards_of(self.options)

    # --- circuits --------------------------------------------------------------------------------

    def shown(self) -> Circuit:
        """Return the circuit with a SparkSource per source and a SparkSink per sink."""
        ports: list[SparkSource | SparkSink] = []
        for name, source in self.source_operators().items():
            frame = self.sources[name].frame if name in self.sources else None
            ports.append(replace(source, frame=frame) if isinstance(frame, str) else source)
        for name, sink in self.sink_operators().items():
            target = self.sinks[name].target if name in self.sinks else None
            ports.append(replace(sink, target=target) if isinstance(target, str) else sink)
        return bind_ports(self._query, ports)

    def running_circuit(self, sources: Mapping[str, SparkSource]) -> Circuit:
        """Return the circuit that a run of the pipeline steps."""
        # The operators of the pair are not part of the running circuit, so that its checkpoint does
        # not depend on the encodings and on which sinks there are.
        return plain_ports(bind_ports(self._query, sources.values()))

    def _run(self, sources: Mapping[str, SparkSource], folder: Path | None) -> Run:
        circuit = self.running_circuit(sources)
        store, limit = None, memory_limit(self.options)
        if folder is not None:
            every = snapshot_every(self.options)
            store = Store(folder / "state", snapshot_every=every, sync=synced(self.options))
        if isinstance(self.program, Circuit):
            return circuit.start(checkpoint=store, memory_limit=limit)
        return self.program.start(circuit=circuit, checkpoint=store, memory_limit=limit)

    # --- DataFrames ------------------------------------------------------------------------------

    def session(self) -> Any:
        """Return the session of the DataFrames, or the active one if all of them are names."""
        operators = self.source_operators()
        if not operators:
            raise InputError(
                "the pipeline has no source; add .source(relation, DataFrame)", code="spark-source"
            )
        for settings in self.sources.values():
            if settings.frame is not None and not isinstance(settings.frame, str):
                return getattr(settings.frame, "sparkSession", None)
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None:
            raise InputError(
                "no session is active to find the tables of the sources in; start one first, for example with"
                " dbsp.spark.session()",
                code="spark-source",
            )
        return session

    def frames(self, session: Any, streaming: bool) -> dict[str, Any]:
        """Return the DataFrame of every source. Raises InputError for one that cannot be read."""
        frames = {}
        for name, operator in self.source_operators().items():
            settings = self.sources.get(name)
            frame = operator.frame if settings is None or settings.frame is None else settings.frame
            if isinstance(frame, str):
                frame = _named_frame(frame, session, streaming, operator.where)
            check_kind(frame, streaming, operator.where)
            frames[name] = frame
        return frames

    def bind(self, frames: Mapping[str, Any]) -> dict[str, SparkSource]:
        """Return the operators of the sources after checking the columns of their DataFrames."""
        sources = self.source_operators()
        for name, source in sources.items():
            check_frame(source, frames[name].schema)
        return sources

    def ordered(
        self, sources: Mapping[str, SparkSource], frames: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, RowOrder]]:
        """Return the DataFrames with the columns that order their rows, and the orders."""
        found = {name: row_order(source, frames[name]) for name, source in sources.items()}
        return {name: frame for name, (frame, _) in found.items()}, {
            name: order for name, (_, order) in found.items()
        }

    # --- the driver ------------------------------------------------------------------------------

    def location(self, session: Any) -> str | None:
        """Return the checkpoint folder by Spark's rules; None for a temporary one."""
        location = self.options.get("checkpointLocation")
        if location is None:
            root = session.conf.get("spark.sql.streaming.checkpointLocation", None)
            if root is None or self.query_name is None:
                return None
            location = f"{root}/{self.query_name}"
        return str(location)

    def driver(
        self,
        session: Any,
        sources: Mapping[str, SparkSource],
        schemas: Mapping[str, Any],
        folder: Path | None,
        orders: Mapping[str, RowOrder] | None = None,
    ) -> Driver:
        """Return the driver of the sources, whose DataFrames have these Spark schemas."""
        if folder is not None and (folder / "query.json").exists():
            raise CheckpointError(
                f"{folder} has the state of a pipeline on shards; start it with the option 'shards', or"
                " choose another checkpointLocation",
                code="checkpoint-other-shards",
            )
        sync = synced(self.options)
        operators = self.sink_operators()
        cut = cut_of(self.options, self._event_times(), sources)
        run = self._run(sources, folder)
        try:
            state = None if folder is None or run.log is None else (folder, run.log.id)
            sinks = [
                self._sink(name, operator, run.outputs, session, state)
                for name, operator in operators.items()
            ]
            described = {
                name: json.dumps({"key": source.key, "columns": schemas[name].simpleString()})
                for name, source in sources.items()
            }
            return Driver(run, sources, sinks, cut, folder, described, sync, orders)
        except BaseException:
            if run.log is not None:
                run.log.close()
            raise

    def check_settings(self, session: Any, sources: Mapping[str, SparkSource]) -> None:
        """Raise an error for an option or a sink that is not valid; open nothing."""
        synced(self.options)
        snapshot_every(self.options)
        memory_limit(self.options)
        cut_of(self.options, self._event_times(), sources)
        columns = {
            node.operator.relation: node.schema
            for node in self._query.nodes
            if isinstance(node.operator, Output)
        }
        for name, operator in self.sink_operators().items():
            self._sink(name, operator, columns, session, None)

    def _event_times(self) -> dict[str, str]:
        return {name: settings.event_time for name, settings in self.sources.items() if settings.event_time}

    def _sink(
        self,
        name: str,
        operator: SparkSink,
        outputs: Mapping[str, Schema],
        session: Any,
        state: tuple[Path, str] | None,
    ) -> BoundSink:
        """Return a sink. `state` is the folder of a durable pipeline, and the id of its state."""
        settings = self.sinks.get(name)
        target = operator.target if settings is None or settings.target is None else settings.target
        schema = None if settings is None else settings.schema
        try:
            operator = replace(operator, columns=outputs[operator.relation])
            struct = sink_struct(operator, struct_of(outputs[operator.relation], schema))
            if not target:
                raise InputError(
                    f"the SparkSink of the circuit has no target; add .sink('{name}', target)",
                    code="spark-sink",
                )
            ledger = None
            if state is not None:
                path = state[0] / f"sink-{quote(name, safe='')}.json"
                ledger = CheckedFile(path, "dbsp sink ledger", state[1])
            return BoundSink(name, operator, struct, target_of(target, session, ledger, self.form))
        except DbspError as error:
            error.where = error.where or operator.where
            raise


def _named_frame(name: str, session: Any, streaming: bool, where: str) -> Any:
    """Return the DataFrame of a table or a temporary view."""
    if not name:
        raise InputError(
            "the SparkSource of the circuit has no DataFrame; add .source(relation, DataFrame)",
            where=where,
            code="spark-source",
        )
    if not session.catalog.tableExists(name):
        raise InputError(
            f"expected the name of a table or a temporary view, got '{name}', which does not exist",
            where=where,
            code="spark-source",
        )
    frame = session.table(name)
    return session.readStream.table(name) if streaming and not frame.isStreaming else frame


def check_kind(frame: Any, streaming: bool, where: str) -> None:
    """Raise InputError unless the pipeline can read the DataFrame."""
    message = ""
    if not hasattr(frame, "isStreaming"):
        message = f"expected a Spark DataFrame, got {type(frame).__name__}"
    elif streaming and not frame.isStreaming:
        message = (
            "expected a streaming DataFrame, got a batch DataFrame; read it with spark.readStream,"
            " or use run()"
        )
    elif not streaming and frame.isStreaming:
        message = "expected a batch DataFrame, got a streaming DataFrame; use start()"
    if message:
        raise InputError(message, where=where, code="spark-source")
