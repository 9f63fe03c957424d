"""Checks of the clauses of a query or of a rule: variables, functions, sources, calls of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from typing import Any

from dbsp.compiler.datomic.meaning.clause_variables import (
    ClauseNeeds,
    Definitions,
    names_of,
    sources_of,
    variables_of,
    visible_variables,
)
from dbsp.compiler.datomic.meaning.query_functions import (
    REFUSED,
    SOURCE_FUNCTIONS,
    QueryFunction,
    find_function,
    known_functions,
    user_function,
)
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindScalar,
    Clause,
    Constant,
    Function,
    Not,
    Or,
    Predicate,
    RuleCall,
    RuleDefinition,
    SourceVariable,
    Variable,
)
from dbsp.diagnostics import SourceSpan, did_you_mean
from dbsp.edn.edn_values import Keyword
from dbsp.errors import counted
from dbsp.lazy_dataclass import dataclass

_SINGLE = {"boolean", "integer", "number", "string", "keyword", "symbol"}


@dataclass
class ClauseChecks:
    """What clauses may refer to, and the report of the errors found."""

    report: QueryReport
    definitions: Definitions
    needs: ClauseNeeds
    sources: Set[str]
    functions: Mapping[str, Callable[..., Any]]
    has_rules: bool
    inputs: Set[str] = field(default_factory=set)
    """The variables of `:in` that are bound to one value, which may be a function."""
    rule: RuleDefinition | None = None
    """The rule whose body is checked."""

    def conjunction(self, clauses: Sequence[Clause], bound: Set[str]) -> set[str]:
        """Check clauses with these names bound outside. Return all names that are bound after."""
        for source, clause in sources_of(clauses):
            if source not in self.sources:
                self._unknown_source(source, clause.span)
        return self._ordered(clauses, bound)

    def _ordered(self, clauses: Sequence[Clause], bound: Set[str]) -> set[str]:
        after = set(bound)
        absent: set[str] = set()

        def missing(clause: Clause, names: set[str], cycle: bool) -> None:
            self._missing(clause, names, cycle)
            after.update(names)
            absent.update(names)

        for clause, before in self.needs.in_order(clauses, bound, missing):
            if isinstance(clause, Or):
                self._or(clause, before - absent)
            self._inside(clause, before)
            after |= self.needs.bound(clause)
        return after

    def _inside(self, clause: Clause, bound: set[str]) -> None:
        match clause:
            case Predicate() | Function():
                self._call_of_function(clause)
            case RuleCall():
                self._call_of_rule(clause)
            case Not(variables=declared, clauses=inner):
                self._not(clause, bound)
                self._ordered(inner, bound if declared is None else names_of(declared))
            case Or(variables=declared, branches=branches):
                visible = names_of(visible_variables(clause))
                for branch in branches:
                    self._ordered(branch, bound if declared is None else bound & visible)

    # --- variables -----------------------------------------------------------------------------

    def _missing(self, clause: Clause, names: set[str], cycle: bool) -> None:
        """Report the names that nothing binds, at the clause that needs them."""
        if isinstance(clause, Or):
            names = names - self._missing_in_branches(clause, names, cycle)
            names &= names_of(clause.required)
        elif isinstance(clause, (Predicate, Function)) and isinstance(clause.function, Variable):
            names = names - {clause.function.name}  # reported as an unknown function
        if not names:
            return
        shown = sorted(names)
        listed = " and ".join(shown)
        is_are = "is" if len(shown) == 1 else "are"
        it_them = "it" if len(shown) == 1 else "them"
        places = [variable for variable in visible_variables(clause) if variable.name in names]
        if cycle:
            message = f"{listed} {is_are} bound only by clauses that need each other's results"
            hint = f"bind {listed} by a pattern or an input"
        else:
            message = f"{listed} {is_are} not bound"
            hint = f"bind {listed} in a pattern such as [?e :attribute {shown[0]}], or in :in"
            match clause:
                case RuleCall(name=name):
                    message += f", but the rule '{name}' requires {it_them}"
                case Not():
                    message += f" outside of the not-join that lists {it_them}"
                case Or():
                    message += f" outside of the or-join that requires {it_them}"
        span = places[0].span if places else clause.span
        self.report.error(message, span, code="unbound-variable", hint=hint)

    def _missing_in_branches(self, clause: Or, names: set[str], cycle: bool) -> set[str]:
        """Report names inside of the branches that need or do not bind them; return those names."""
        reported: set[str] = set()
        for branch in clause.branches:
            unmet = self.needs.unmet(branch) & names

            def missing(inner: Clause, absent: set[str], _: bool, unmet: set[str] = unmet) -> None:
                if absent & unmet:
                    self._missing(inner, absent & unmet, cycle)

            for _ in self.needs.in_order(branch, frozenset(), missing):
                pass
            bound = self.needs.bound_by_any(branch)
            used = names_of(variables_of(branch))
            silent = (names - unmet - bound) & used - names_of(clause.required)
            for name in sorted(silent):
                self.report.error(
                    f"{name} is not bound in this branch of the or, nor outside of it",
                    branch[0].span,
                    code="unbound-variable",
                    hint=f"bind {name} in every branch, or in a clause beside the or",
                )
            reported |= unmet | silent
        return reported

    def _not(self, clause: Not, bound: set[str]) -> None:
        visible = visible_variables(clause)
        if clause.variables is None:
            if visible and not names_of(visible) & bound:
                listed = ", ".join(sorted(names_of(visible)))
                self.report.error(
                    f"no variable of the not ({listed}) is bound outside of it",
                    clause.span,
                    code="unbound-variable",
                    hint="a not removes rows; another clause must bind at least one of its variables",
                )
            return
        self._duplicates(clause.variables, "not-join")
        inner = names_of(variables_of(clause.clauses))
        for variable in clause.variables:
            if variable.name not in inner:
                self.report.error(
                    f"the not-join lists {variable.name}, but its clauses do not use it",
                    variable.span,
                    code="unbound-variable",
                )

    def _or(self, clause: Or, bound: set[str]) -> None:
        """Check that all branches bind the same variables; `bound` are those bound outside."""
        if clause.variables is not None:
            self._duplicates(clause.required + clause.variables, "or-join")
            for branch in clause.branches:
                absent = names_of(visible_variables(clause)) - names_of(variables_of(branch)) - bound
                if absent:
                    self.report.error(
                        f"the or-join lists {' and '.join(sorted(absent))}, which this branch does not use",
                        branch[0].span if branch else clause.span,
                        code="or-variables",
                        hint="every branch uses the variables that are not bound outside of the or-join",
                    )
            return
        used = [names_of(variables_of(branch)) for branch in clause.branches]
        for branch, names in zip(clause.branches, used, strict=True):
            if names != used[0]:
                self.report.error(
                    "the branches of an or use the same variables, but this one uses "
                    f"{_listed(names)} and the first one {_listed(used[0])}",
                    branch[0].span if branch else clause.span,
                    code="or-variables",
                    hint="write (or-join [?x ...] ...) with the variables that all branches share",
                )

    def _duplicates(self, variables: Sequence[Variable], what: str) -> None:
        seen: set[str] = set()
        for variable in variables:
            if variable.name in seen:
                self.report.error(
                    f"the {what} lists {variable.name} twice", variable.span, code="duplicate-variable"
                )
            seen.add(variable.name)

    # --- sources and rules ---------------------------------------------------------------------

    def _unknown_source(self, source: str, span: SourceSpan) -> None:
        near = did_you_mean(source, self.sources) if len(source) > 1 else None
        known = ", ".join(sorted(self.sources)) or "there is none"
        self.report.error(
            f"unknown source {source}: :in has no {source}",
            span,
            code="unknown-source",
            hint=near or f"add it to :in; the sources are: {known}",
        )

    def _call_of_rule(self, clause: RuleCall) -> None:
        name, count = clause.name, len(clause.arguments)
        found = self.definitions.get(name)
        if not found:
            self._unknown_rule(clause)
            return
        arity = len(found[0].head)
        if count != arity:
            self.report.error(
                f"expected {counted(arity, 'argument')} of the rule '{name}', got {count}",
                clause.span,
                code="wrong-arity",
                hint=f"the rule is ({' '.join([name, *(variable.name for variable in found[0].head)])})",
            )

    def _unknown_rule(self, clause: RuleCall) -> None:
        name = clause.name
        function = find_function(name) is not None or name in SOURCE_FUNCTIONS or name in self.functions
        near = did_you_mean(name, self.definitions)
        if function:
            hint: str | None = f"'{name}' is a function; a call of a function is in a vector: [({name} ...)]"
        elif not self.has_rules:
            hint = "add % to :in, and pass the rules as an argument"
        else:
            hint = near or f"the rules are: {', '.join(sorted(self.definitions)) or 'none'}"
        self.report.error(f"unknown rule '{name}'", clause.span, code="unknown-rule", hint=hint)

    # --- functions -----------------------------------------------------------------------------

    def _call_of_function(self, clause: Predicate | Function) -> None:
        name = clause.function
        if isinstance(name, Variable):
            if self.rule is not None or name.name not in self.inputs:
                self.report.error(
                    f"the function {name.name} is not an input",
                    name.span,
                    code="unknown-function",
                    hint="functions of rules have names: q(..., functions={'my/f': f})"
                    if self.rule is not None
                    else f"add {name.name} to :in, and pass a Python function",
                )
            self._refuse_sources(clause)
            return
        if name in SOURCE_FUNCTIONS and name not in self.functions:
            self._call_with_source(clause, name)
            return
        self._refuse_sources(clause)
        found = self._function(name, clause)
        if found is None:
            return
        count = len(clause.arguments)
        if not found.accepts(count):
            self.report.error(
                f"expected {found.arity} of '{name}', got {count}", clause.span, code="wrong-arity"
            )
        if isinstance(clause, Function) and found.result in _SINGLE:
            self._single_result(clause, name, found)

    def _function(self, name: str, clause: Predicate | Function) -> QueryFunction | None:
        given = self.functions.get(name)
        if given is not None:
            return user_function(name, given)
        found = find_function(name)
        if found is not None:
            return found
        if name in REFUSED:
            self.report.error(
                f"a query cannot call '{name}'", clause.span, code="unknown-function", hint=REFUSED[name]
            )
            return None
        short = name.rpartition("/")[2]
        near = did_you_mean(name, known_functions(self.functions)) or did_you_mean(
            short, known_functions(self.functions)
        )
        if f"clojure.string/{name}" in known_functions():
            near = f"did you mean 'clojure.string/{name}'?"
        hint = near or "pass a Python function: q(..., functions={" + repr(name) + ": f})"
        if name in self.definitions:
            hint = f"'{name}' is a rule; a call of a rule is a list of its own: ({name} ...)"
        self.report.error(f"unknown function '{name}'", clause.span, code="unknown-function", hint=hint)
        return None

    def _single_result(self, clause: Function, name: str, found: QueryFunction) -> None:
        if not isinstance(clause.binding, (BindScalar, BindBlank)):
            article = "an" if found.result == "integer" else "a"
            self.report.error(
                f"expected a variable for the result of '{name}', which is {article} {found.result}",
                clause.binding.span,
                code="invalid-binding",
                hint=f"write [({name} ...) ?x]",
            )

    def _refuse_sources(self, clause: Predicate | Function) -> None:
        for argument in clause.arguments:
            if isinstance(argument, SourceVariable):
                self.report.error(
                    f"a function cannot have the source {argument.name} as argument",
                    argument.span,
                    code="wrong-function-argument",
                    hint=f"only {', '.join(sorted(SOURCE_FUNCTIONS))} read a source",
                )

    def _call_with_source(self, clause: Predicate | Function, name: str) -> None:
        function = SOURCE_FUNCTIONS[name]
        arguments = clause.arguments
        if not function.accepts(len(arguments)):
            least = "at least " if function.maximum is None else ""
            self.report.error(
                f"expected {least}{function.minimum} arguments of '{name}', got {len(arguments)}",
                clause.span,
                code="wrong-arity",
                hint=f"write {function.form}",
            )
            return
        if not isinstance(arguments[0], SourceVariable):
            self.report.error(
                f"expected a source such as $ as first argument of '{name}'",
                arguments[0].span,
                code="wrong-function-argument",
                hint=f"write {function.form}",
            )
        attributes = arguments[2:3] if name != "get-some" else arguments[2:]
        for argument in attributes:
            if not isinstance(argument, Constant) or not isinstance(argument.value, Keyword):
                self.report.error(
                    f"expected an attribute such as :person/name as argument of '{name}'",
                    argument.span,
                    code="wrong-function-argument",
                    hint=f"write {function.form}",
                )
        if name == "get-else" and isinstance(arguments[3], Constant) and arguments[3].value is None:
            self.report.error(
                "the default of 'get-else' is nil, which binds nothing",
                arguments[3].span,
                code="wrong-function-argument",
                hint="a pattern [?e :attribute ?x] has no row for entities without the attribute",
            )
        if (name == "missing?") != isinstance(clause, Predicate):
            expected = "no binding" if name == "missing?" else "a binding"
            self.report.error(
                f"expected {expected} after the call of '{name}'",
                clause.span,
                code="invalid-clause",
                hint=f"write {function.form}",
            )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
