"""Check that a recursion uses the values of its lattice columns monotonically.

    .decl dist(x: symbol, y: symbol, d: number<min>)
    dist(x, z, d + w) :- dist(x, y, d), edge(y, z, w), d < 100.

Within a recursion, a rule reads values that may still rise in their lattice: here d may get
smaller. A rule is *monotone* if it derives, from risen values, rows with the same or risen values.
Then there is a least fixpoint, which does not depend on the order of evaluation. A rule is accepted
if this follows from its form, by the direction in which each term moves when the values rise:

- a value may be copied to a lattice column of the same lattice, also through `+`, `-`, `min`,
  `max`, products with constants, `bor`, `band`, shifts, and functors over lattice types;
- a comparison may become true and must stay true: `d < 100` if d can only get smaller;
- a value is not a key, is not tested for equality, and enters no negation or aggregate.

Outside of the recursion, the values are final and can be used in every way. No sum is expected to
leave its range. (Madsen, Yee, Lhotak, "From Datalog to Flix", PLDI 2016, leaves this to the
programmer; Ross and Sagiv, "Monotonic aggregation in deductive databases", PODS 1992.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import reads_any
from dbsp.compiler.datalog.meaning.show import show_term, source_name
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import ORDERS, Lattice, Structured, flat_top
from dbsp.compiler.datalog.tree.traversal import find, free_variables, variables
from dbsp.data.terms import Branch
from dbsp.diagnostics import SourceSpan


class Direction(NamedTuple):
    """How a term moves when lattice values rise: in an order, with `sign` 1 up or -1 down."""

    order: str
    sign: int


FIXED = Direction("", 0)
"""The term does not depend on a value that may rise."""


def check_lattice_uses(
    relations: Mapping[str, checked.Relation], strata: Sequence[checked.Stratum], report: Report
) -> None:
    """Report the recursive rules that are not monotone in the lattice columns."""
    for stratum in strata:
        names = stratum.relations
        lattices = [name for name in names if relations[name].lattice_columns]
        if not stratum.recursive or not lattices:
            continue
        for name in names:
            relation = relations[name]
            if relation.choices or relation.subsumed or relation.limit is not None:
                message = f"'{name}' has a choice-domain, a subsumption or a limit, and depends on"
                message += f" '{lattices[0]}', which has a lattice column and depends on '{name}'"
                hint = "the result would depend on the order of evaluation; break the cycle"
                report.error(relation.span, message, hint, code="not-monotone")
        for rule in stratum.rules:
            if reads_any(rule, lattices):
                _RuleCheck(rule, relations, names, report).run()


class _RuleCheck:
    def __init__(
        self,
        rule: checked.Rule,
        relations: Mapping[str, checked.Relation],
        own: Collection[str],
        report: Report,
    ) -> None:
        self.rule = rule
        self.relations = relations
        self.own = own
        self.report = report
        self.rising: dict[str, Direction] = {}
        """The variables that may change while the recursion is evaluated."""
        self.failed = False

    def run(self) -> None:
        """Report the first use that is not monotone."""
        atoms = [literal for literal in self.rule.body if isinstance(literal, syntax.Atom)]
        for atom in atoms:
            self.read(atom)
        known = Counter(variable.name for atom in atoms for variable in free_variables(atom))
        for name, times in known.items():
            if name in self.rising and times > 1:
                *_, last = (v.span for atom in atoms for v in free_variables(atom) if v.name == name)
                self.fail(last, f"'{source_name(name)}'", "is compared with another value for equality")
        rest: list[syntax.Literal] = [
            literal for literal in self.rule.body if not isinstance(literal, syntax.Atom)
        ]
        while (bound := self.bind(rest, known.keys())) is not None:
            rest.remove(bound)
        for literal in rest:
            self.condition(literal)
        self.head()

    def read(self, atom: syntax.Atom) -> None:
        """Note the variables of the lattice columns of an atom of the recursion."""
        if atom.relation not in self.own:
            return
        columns = self.relations[atom.relation].attributes
        for term, column in zip(atom.arguments, columns, strict=True):
            if column.lattice is None or isinstance(term, syntax.Wildcard):
                continue
            if isinstance(term, syntax.Variable):
                self.rising[term.name] = _direction(column.lattice)
            elif not _is_top(term, column.lattice):
                values = f"a value of column '{column.name}'"
                self.fail(term.span, values, f"is compared with '{show_term(term)}' for equality")

    def bind(self, literals: Sequence[syntax.Literal], known: Collection[str]) -> syntax.Literal | None:
        """Find an equation that gives a variable a value that may rise."""
        for literal in literals:
            if not isinstance(literal, syntax.Comparison) or literal.operator != "=":
                continue
            for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
                if not isinstance(variable, syntax.Variable) or variable.name in known:
                    continue
                direction = self.direction(term)
                if variable.name not in self.rising and direction not in (None, FIXED):
                    self.rising[variable.name] = direction or FIXED
                    return literal
        return None

    def condition(self, literal: syntax.Literal) -> None:
        """Check a literal that is not an atom and binds no rising variable."""
        name = self.depends_on(literal)
        if name is None:
            return
        if isinstance(literal, syntax.Comparison) and literal.operator in ("<", "<=", ">", ">="):
            smaller, greater = literal.left, literal.right
            if literal.operator in (">", ">="):
                smaller, greater = greater, smaller
            below, above = self.direction(smaller), self.direction(greater)
            falls = below == FIXED or below == Direction("value", -1)
            if falls and (above == FIXED or above == Direction("value", 1)):
                return
            self.fail(literal.span, f"'{source_name(name)}'", "can make this condition false again")
            return
        what = "is tested here, and the test can become false again"
        if isinstance(literal, syntax.Negation):
            what = "is used in a negation"
        elif next(find(literal, syntax.Aggregate), None) is not None:
            what = "is used in an aggregate"
        self.fail(literal.span, f"'{source_name(name)}'", what)

    def head(self) -> None:
        head = self.rule.head
        columns = self.relations[head.relation].attributes
        for term, column in zip(head.arguments, columns, strict=True):
            name = self.depends_on(term)
            if name is None:
                continue
            if column.lattice is None:
                what = f"enters column '{column.name}' of '{head.relation}', which has no lattice"
                self.fail(term.span, f"'{source_name(name)}'", what)
            elif self.direction(term) != _direction(column.lattice):
                lattice = f"{column.type_name}<{column.lattice.join}>"
                what = f"does not rise in the lattice {lattice} of column '{column.name}'"
                if not isinstance(term, syntax.Variable):
                    what = f"'{show_term(term)}' {what}"
                self.fail(term.span, f"'{source_name(name)}'", what)

    def direction(self, term: syntax.Term) -> Direction | None:
        """How a term moves when the values rise; None if it may move in both directions."""
        if self.depends_on(term) is None:
            return FIXED
        match term:
            case syntax.Variable(name=name):
                return self.rising[name]
            case syntax.Call(functor=functor) if functor is not None:
                lattices = functor.lattices or (None,) * (len(functor.parameters) + 1)
                for part, lattice in zip(term.arguments, lattices[:-1], strict=True):
                    found = self.direction(part)
                    if found != FIXED and (lattice is None or found != _direction(lattice)):
                        return None
                return None if lattices[-1] is None else _direction(lattices[-1])
            case syntax.Call(function="-", arguments=(part,)):
                return _turned(self.in_values(part))
            case syntax.Call(function="+" | "min" | "max", arguments=arguments):
                return _together([self.in_values(part) for part in arguments])
            case syntax.Call(function="-", arguments=(left, right)):
                return _together([self.in_values(left), _turned(self.in_values(right))])
            case (
                syntax.Call(function="*", arguments=(syntax.Constant() as factor, part))
                | syntax.Call(function="*", arguments=(part, syntax.Constant() as factor))
            ):
                return _scaled(self.in_values(part), factor)
            case syntax.Call(function="/", arguments=(part, syntax.Constant() as divisor)):
                return _scaled(self.in_values(part), divisor) if divisor.value else None
            case syntax.Call(function="itof" | "utof", arguments=(part,)):
                return self.in_values(part)
            case syntax.Call(function="bor" | "band", arguments=arguments):
                return _together([self.in_bits(part) for part in arguments])
            case syntax.Call(function="bnot", arguments=(part,)):
                return _turned(self.in_bits(part))
            case syntax.Call(function="bshl" | "bshr" | "bshru", arguments=(part, by)):
                return self.in_bits(part) if self.direction(by) == FIXED else None
            case _:
                return None

    def in_values(self, term: syntax.Term) -> Direction | None:
        """The direction of a term in the order of numbers or symbols."""
        found = self.direction(term)
        return found if found is not None and found.order in ("", "value") else None

    def in_bits(self, term: syntax.Term) -> Direction | None:
        """The direction of a term in the order of sets of bits."""
        found = self.direction(term)
        return found if found is not None and found.order in ("", "bits") else None

    def depends_on(self, node: syntax.Node) -> str | None:
        """A variable in a node whose value may rise."""
        return next((name for name in sorted(variables(node)) if name in self.rising), None)

    def fail(self, span: SourceSpan, value: str, what: str) -> None:
        """Report the first use that is not monotone; `value` names what may still change."""
        if self.failed:
            return
        self.failed = True
        own = ", ".join(f"'{relation}'" for relation in self.own if self.relations[relation].lattice_columns)
        message = f"{value} may still change in the recursion of {own}, and {what}"
        hint = "use it in a rule outside of the recursion, where it is final; or compute the value by a"
        hint += " functor over lattice types, .functor f(x: T<join>): T<join>"
        self.report.error(span, message, hint, code="not-monotone")


def _direction(lattice: Lattice) -> Direction:
    """How a value moves that rises in a lattice."""
    if lattice.join in ORDERS:
        return Direction(*ORDERS[lattice.join])
    kind = lattice.kind.name if isinstance(lattice.kind, Structured) else lattice.kind.value
    return Direction(f"{lattice.join} {kind}", 1)


def _is_top(term: syntax.Term, lattice: Lattice) -> bool:
    """Whether a term is the greatest value of a flat lattice; once a value, it stays the value."""
    value = term.value if isinstance(term, syntax.Constant) else None
    return lattice.join == "flat" and isinstance(value, Branch) and value.name == flat_top(lattice.kind)


def _turned(direction: Direction | None) -> Direction | None:
    return None if direction is None else direction._replace(sign=-direction.sign)


def _scaled(direction: Direction | None, factor: syntax.Constant) -> Direction | None:
    positive = isinstance(factor.value, int | float) and factor.value >= 0
    return direction if positive else _turned(direction)


def _together(directions: Sequence[Direction | None]) -> Direction | None:
    """The direction of a function that rises with every argument; None if they disagree."""
    moving = {direction for direction in directions if direction != FIXED}
    return moving.pop() if len(moving) == 1 else None
