"""Reads circuits from JSON or networkx; `dbsp.circuit.graph_json` defines the form and writes it.

A circuit names Python functions and classes, and reading imports their modules: read only trusted
files.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import networkx as nx

import dbsp.operators
from dbsp.circuit.graph import Graph
from dbsp.circuit.graph_json import fill, parse, places_in
from dbsp.circuit.networkx_form import networkx_document
from dbsp.circuit.value_json import DecodeContext
from dbsp.expressions import Expression
from dbsp.expressions.origin import Origin
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.body import Body
from dbsp.operators.streams.builder import Circuit

NO_PLACES: Mapping[str, str] = {}
NO_ORIGINS: Mapping[tuple[Any, ...], Origin[Expression]] = {}


def from_json(text: str, functors: Mapping[str, Callable[..., Any]] | None = None) -> Graph:
    """Read a circuit from the JSON text that `to_json` wrote.

    Reading imports the modules of the functions and classes that the text names: read only trusted
    text.

    Parameters:
        text: the JSON text.
        functors: the Python functions of a Datalog program's functors, by name; the text does not
            contain them.

    Returns:
        A `Circuit`, or a lowered graph for `dbsp.Run` if the text was written from one.

    Raises:
        CircuitError: the text is not a circuit, or names something that cannot be imported.

    Examples:
        >>> circuit = Circuit("evens")
        >>> circuit.output("even", circuit.input("n", x=int).filter(col("x") % 2 == 0))
        >>> from_json(circuit.to_json()).start().step({"n": [(1,), (2,)]})["even"].rows()
        [(2,)]
    """
    return _circuit(parse(text), functors or {})


def read_circuit(text: str, functors: Mapping[str, Callable[..., Any]], like: Graph) -> Graph:
    """The same as `from_json`, for a circuit of the program that the circuit `like` is of.

    Errors then show the program's text: an expression that both circuits have is at the same place.
    """
    return _circuit(parse(text), functors, *places_in(like))


def from_networkx(graph: nx.MultiDiGraph) -> Graph:
    """Read a circuit from the networkx graph that `to_networkx` returned.

    Parameters:
        graph: the networkx graph.

    Returns:
        A `Circuit`, or a lowered graph for `dbsp.Run` if the graph was made from one.

    Raises:
        CircuitError: the graph is not a circuit, or names something that cannot be imported.

    Examples:
        >>> circuit = Circuit("copy")
        >>> circuit.output("out", circuit.input("n", x=int))
        >>> from_networkx(circuit.to_networkx())
        <circuit 'copy': 2 nodes>
    """
    return _circuit(networkx_document(graph), {})


def _circuit(
    written: Mapping[str, Any],
    functors: Mapping[str, Callable[..., Any]],
    places: Mapping[str, str] = NO_PLACES,
    origins: Mapping[tuple[Any, ...], Origin[Expression]] = NO_ORIGINS,
) -> Graph:
    name = written["name"]
    graph = Graph(name) if written["form"] == "lowered" else Circuit(name)
    scopes: list[Body] = []

    def new_scope(parent: Graph, inside: Mapping[str, Any]) -> Body:
        scopes.append(Body(inside["name"], parent, **inside["settings"]))
        return scopes[-1]

    fill(graph, written, DecodeContext(catalogue(), functors, origins=origins), new_scope, places)
    if isinstance(graph, Circuit):
        for scope in scopes:
            scope.closed = True
        for node in graph.nodes:
            if isinstance(node.operator, Input | Output):
                kind = "input" if isinstance(node.operator, Input) else "output"
                graph.declare(kind, node.operator.relation)
    graph.validate()
    return graph


@functools.cache
def catalogue() -> dict[str, type]:
    """The dataclasses of this package (operators and their parts) by class name."""
    found: dict[str, type] = {}
    for module in walk_packages(dbsp.operators.__path__, "dbsp.operators."):
        for value in vars(import_module(module.name)).values():
            if not isinstance(value, type) or value.__module__ != module.name:
                continue
            if dataclasses.is_dataclass(value):
                found[value.__qualname__] = value
    return found
