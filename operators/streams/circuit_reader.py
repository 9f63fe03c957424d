"""Reads circuits from JSON or networkx; `dbsp.circuit.graph_json` defines the form and writes it.

Reading imports nothing. A circuit may name the operators of dbsp, and the functions and classes
that the caller passes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, NamedTuple

import dbsp.operators
from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_json import fill, parse, places_in
from dbsp.circuit.named_parts import Functions, classes_by_name, functions_by_name, names_in
from dbsp.circuit.networkx_form import networkx_document
from dbsp.circuit.value_json import DecodeContext
from dbsp.errors import CircuitError, shorten
from dbsp.expressions import Expression
from dbsp.expressions.origin import Origin
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.body import Body
from dbsp.operators.stages.join_strategy import JoinStrategy
from dbsp.operators.streams.builder import Circuit

if TYPE_CHECKING:
    import networkx as nx

NO_PLACES: Mapping[str, str] = {}
NO_ORIGINS: Mapping[tuple[Any, ...], Origin[Expression]] = {}


@ends_at_caller
def from_json(
    text: str,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    *,
    functions: Functions = (),
    operators: Iterable[type] = (),
) -> Graph:
    """Read a circuit from the JSON text that `to_json` wrote.

    Reading imports nothing and calls nothing. The text may name the operators of dbsp, and only
    those Python functions and classes that you pass. Pass functions that are harmless with any
    arguments: the text determines the rows that a function receives.

    Parameters:
        text: the JSON text.
        functors: the Python functions of a Datalog program's functors, by name; the text does not
            contain them.
        functions: the Python functions that the circuit may call, such as those of `filter` and
            `map`; or a mapping from their names in the text (`module:name`) to functions.
        operators: the classes of your own operators that the circuit may contain.

    Returns:
        A `Circuit`, or a lowered graph for `dbsp.Run` if the text was written from one.

    Raises:
        CircuitError: the text is not a circuit, or names a function or class that was not passed.

    Examples:
        >>> circuit = Circuit("evens")
        >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
        >>> from_json(circuit.to_json()).start().step({"n": [(1,), (2,)]})["even"].rows()
        [(2,)]
    """
    passed = _Passed(functors or {}, functions_by_name(functions), classes_by_name(operators))
    return _circuit(parse(text), passed)


def read_circuit(text: str, functors: Mapping[str, Callable[..., Any]], like: Graph) -> Graph:
    """The same as `from_json`, for a circuit of the program that the circuit `like` is of.

    The text may name the functions and classes of `like`. Errors then show the program's text: an
    expression that both circuits have is at the same place.
    """
    names = names_in(node.operator for node in like.walk())
    return _circuit(parse(text), _Passed(functors, *names), *places_in(like))


@ends_at_caller
def from_networkx(
    graph: nx.MultiDiGraph, *, functions: Functions = (), operators: Iterable[type] = ()
) -> Graph:
    """Read a circuit from the networkx graph that `to_networkx` returned.

    Parameters:
        graph: the networkx graph.
        functions: the Python functions that the circuit may call, as for `from_json`.
        operators: the classes of your own operators that the circuit may contain.

    Returns:
        A `Circuit`, or a lowered graph for `dbsp.Run` if the graph was made from one.

    Raises:
        CircuitError: the graph is not a circuit, or names a function or class that was not passed.

    Examples:
        >>> circuit = Circuit("copy")
        >>> circuit.output("out", circuit.input("n", x=int))
        >>> from_networkx(circuit.to_networkx())
        <circuit 'copy': 2 nodes>
    """
    passed = _Passed({}, functions_by_name(functions), classes_by_name(operators))
    return _circuit(networkx_document(graph), passed)


class _Passed(NamedTuple):
    """The functions and classes that a circuit may name besides those of dbsp."""

    functors: Mapping[str, Callable[..., Any]]
    functions: Mapping[str, Callable[..., Any]]
    classes: Mapping[str, type]


def _circuit(
    written: Mapping[str, Any],
    passed: _Passed,
    places: Mapping[str, str] = NO_PLACES,
    origins: Mapping[tuple[Any, ...], Origin[Expression]] = NO_ORIGINS,
) -> Graph:
    name = written["name"]
    graph = Graph(name) if written["form"] == "lowered" else Circuit(name, strategy=_strategy(written))
    scopes: list[Body] = []

    def new_scope(parent: Graph, inside: Mapping[str, Any]) -> Body:
        scopes.append(Body(inside["name"], parent, **inside["settings"]))
        return scopes[-1]

    # The classes of dbsp come last: no passed class takes the place of one of them.
    classes = {**passed.classes, **catalogue()}
    reading = DecodeContext(classes, passed.functions, passed.functors, origins=origins)
    fill(graph, written, reading, new_scope, places)
    if isinstance(graph, Circuit):
        for scope in scopes:
            scope.closed = True
    _declare_ports(graph)
    graph.validate()
    return graph


def _strategy(written: Mapping[str, Any]) -> JoinStrategy:
    """Return the strategy of a circuit. Raises CircuitError if it is none."""
    settings = written.get("settings", {})
    try:
        return JoinStrategy(settings.get("strategy", JoinStrategy.AUTO))
    except (AttributeError, ValueError):
        raise CircuitError(
            f"expected the settings of a circuit, such as {{'strategy': 'as-written'}}, got "
            f"{shorten(settings)}",
            code="invalid-circuit-file",
        ) from None


def _declare_ports(graph: Graph) -> None:
    """Reserve the names of inputs and outputs. Raise CircuitError if a name is in use.

    Several sinks may write the same stream under one name (see `SparkSink.sink_name`).
    """
    names = graph if isinstance(graph, Circuit) else Circuit(graph.name)
    written: set[tuple[str, Node]] = set()
    for node in graph.nodes:
        operator = node.operator
        if isinstance(operator, Input):
            names.declare("input", operator.relation)
        elif isinstance(operator, Output):
            output = (operator.relation, node.inputs[0].node)
            if output not in written:
                names.declare("output", operator.relation)
            written.add(output)


@functools.cache
def catalogue() -> dict[str, type]:
    """The dataclasses of this package (operators and their parts) by class name.

    The planner has no operators, and its `Atom` is not that of a multi-way join.
    """
    found: dict[str, type] = {}
    for module in walk_packages(dbsp.operators.__path__, "dbsp.operators."):
        if module.name.startswith("dbsp.operators.planner."):
            continue
        for value in vars(import_module(module.name)).values():
            if not isinstance(value, type) or value.__module__ != module.name:
                continue
            if dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                found[value.__qualname__] = value
    return found
