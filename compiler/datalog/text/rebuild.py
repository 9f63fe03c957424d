"""Making one syntax tree of another: a rebuilder copies, its subclasses say what is different."""

from __future__ import annotations

from dataclasses import replace

from dbsp.compiler.datalog.text import syntax


class Rebuilder:
    """Copies formulas and terms as they are written, aggregates and groups included."""

    def formula(self, formula: syntax.Formula) -> syntax.Formula:
        match formula:
            case syntax.Conjunction(parts=parts) | syntax.Disjunction(parts=parts):
                return replace(formula, parts=tuple(map(self.formula, parts)))
            case syntax.Not(part=part):
                return replace(formula, part=self.formula(part))
            case syntax.Negation(atom=atom):
                return replace(formula, atom=self.atom(atom))
            case syntax.Comparison(left=left, right=right):
                return replace(formula, left=self.term(left), right=self.term(right))
            case syntax.Atom():
                return self.atom(formula)
            case syntax.Truth():
                return formula

    def atom(self, atom: syntax.Atom) -> syntax.Atom:
        return replace(atom, arguments=tuple(map(self.term, atom.arguments)))

    def term(self, term: syntax.Term) -> syntax.Term:
        match term:
            case syntax.Variable():
                return self.variable(term)
            case syntax.Call(arguments=arguments):
                return replace(term, arguments=tuple(map(self.term, arguments)))
            case syntax.Aggregate(value=value, body=body):
                value = None if value is None else self.term(value)
                return replace(term, value=value, body=self.formula(body))
            case _:
                return term

    def variable(self, variable: syntax.Variable) -> syntax.Term:
        return variable
