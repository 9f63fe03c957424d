"""Circuits of subscriptions, which read the relations of a run from traces outside of them.

    query       the answers of all queries of one form (see `subscribed_query`)
    relation    the relations of one stratum of the program that the circuit of the run lacks
    trace       a relation, sorted in one column order

A query that stores nothing but what depends on its constants starts empty, and the constants of a
new subscription are a change like any other (as for live queries of databases, see
`datalog.circuits.external_rows`). Other circuits start by one step over all rows that they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph
from dbsp.circuit.stage import Stage
from dbsp.compiler.datalog.circuits.external_rows import external_orders, stores_external_rows
from dbsp.compiler.datalog.circuits.lower import lower_program
from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import dependencies
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.plans.join_bodies import Policy
from dbsp.compiler.datalog.plans.plan_rules import plan_rules
from dbsp.compiler.subscribed_query import GIVEN, QueryForm
from dbsp.compiler.why.opaque_relations import as_plain
from dbsp.compiler.why.question import ANSWER
from dbsp.data.schema import Schema
from dbsp.errors import InputError
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.ports.traced_input import traced_input
from dbsp.operators.recursion.modes import Recursion
from dbsp.runtime.live_graph import LiveGraph, Source

TRACED = "rows"
"""The input of the circuit of a trace."""


def query_graph(program: checked.CheckedProgram, form: QueryForm, max_iterations: int) -> LiveGraph:
    """Return the circuit of a form of queries."""
    read = frozenset(form.relations)
    relations = {name: as_plain(program.relations[name]) for name in read}
    asked = replace(
        program,
        relations={**relations, GIVEN: form.given, ANSWER: form.answer},
        facts=(),
        rules=form.rules,
        subsumptions=(),
        strata=(checked.Stratum((ANSWER,), form.rules, False),),
        inputs=(*relations, GIVEN),
        outputs=(ANSWER,),
        sizes=(),
    )
    sources = {name: Source("relation", name) for name in relations}
    # One multi-way join for each rule, from the constants on: it stores no partial results.
    policy = Policy(Statistics.none(), Strategy.WCOJ, external=read)
    graph = _physical(asked, policy, read, max_iterations)
    replays = stores_external_rows(graph) is not None
    if replays:
        graph = _physical(asked, Policy(Statistics.none()), read, max_iterations)
    return LiveGraph(graph, sources, external_orders(graph), ANSWER, GIVEN, replays)


def relation_graph(program: checked.CheckedProgram, name: str, max_iterations: int) -> LiveGraph:
    """Return the circuit of a relation that rules derive, with the others of its stratum.

    Raises InputError if its rules number their rows.
    """
    stratum = next(each for each in program.strata if name in each.relations)
    if any(map(numbers_rows, stratum.rules)):
        raise InputError(
            f"the run does not keep the rows of '{name}': autoinc() numbers them, and '{name}' is not an "
            f"output; add '.output {name}' to the program",
            code="rows-not-kept",
        )
    clauses = (*stratum.rules, *stratum.subsumptions)
    used = dict.fromkeys(use.used for rule in clauses for use in dependencies(rule))
    outside = [each for each in used if each not in stratum.relations]
    own = [each for each in stratum.relations if each in program.inputs]
    relations = {each: as_plain(program.relations[each]) for each in outside}
    relations |= {each: program.relations[each] for each in stratum.relations}
    part = replace(
        program,
        relations=relations,
        facts=(),
        rules=stratum.rules,
        subsumptions=stratum.subsumptions,
        strata=(stratum,),
        inputs=(*outside, *own),
        outputs=stratum.relations,
        sizes=(),
    )
    sources = {each: Source("relation", each) for each in outside}
    sources |= {each: Source("input", each) for each in own}
    graph = _physical(part, Policy(Statistics.none()), frozenset(sources), max_iterations)
    return LiveGraph(graph, sources, external_orders(graph), name, "", True)


def trace_graph(schema: Schema, order: Sequence[int], source: Source) -> LiveGraph:
    """Return the circuit that keeps a relation sorted by the columns `order`."""
    return LiveGraph(traced_input(TRACED, schema, order), {TRACED: source}, (), "", "", True)


def _physical(
    program: checked.CheckedProgram, policy: Policy, external: frozenset[str], max_iterations: int
) -> Graph:
    plans = plan_rules(program, policy)
    circuit = lower_program(program, plans, "subscription", max_iterations, Recursion.INCREMENTAL, external)
    return circuit.circuit(Stage.PHYSICAL)
