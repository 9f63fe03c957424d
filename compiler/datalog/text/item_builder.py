"""Turn the parse tree of one item into the nodes of `parsed`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import cast

from dbsp.compiler.datalog.text import parsed
from dbsp.compiler.datalog.text.formula_builder import FormulaBuilder, subtree, subtrees
from dbsp.compiler.datalog.text.item_parser import Child, ParseTree
from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import N, map_children

# Deeper nesting is an error: the passes after this one walk terms recursively.
MAX_DEPTH = 120


class ItemBuilder(FormulaBuilder):
    """Builds the items of one text."""

    def item(self, tree: ParseTree, tokens: int) -> parsed.Item | None:
        """The item of a parse tree of so many tokens, or None when it is nested too deeply."""
        # A tree has no more levels than tokens: every level has a token besides the next level,
        # except for lists of one element, and those are in brackets or follow a word.
        if tokens > MAX_DEPTH and depth(tree) > MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep"
            hint = "split it into several rules"
            self.report.error(tree.span, message, hint, code="program-too-large")
            return None
        match tree.data:
            case "fact":
                return parsed.Clause((self.atom(subtree(tree, 0)),), None, tree.span)
            case "rule":
                heads = tuple(self.atom(head) for head in subtrees(subtree(tree, 0)))
                return parsed.Clause(heads, self.formula(subtree(tree, 2)), tree.span)
            case "subsumption":
                return self._subsumption(tree)
            case "relation_declaration":
                return self._relation(tree)
            case "functor_declaration":
                return self._functor(tree)
            case "lattice":
                return self._lattice(tree)
            case "directive":
                return self._directive(tree)
            case "component":
                head, *bases = [self._component_type(subtree) for subtree in _component_types(tree)]
                return parsed.Component(head, tuple(bases), (), tree.span)
            case "component_end":
                return parsed.ComponentEnd(tree.span)
            case "instance":
                name = self.name(cast(PlacedToken, tree.children[1]))
                return parsed.Instance(name, self._component_type(subtree(tree, 3)), tree.span)
            case "override":
                return parsed.Override(self._names(tree.children[1]), tree.span)
            case "pragma":
                key, *value = map(self.text_of, _tokens(tree)[1:])
                return parsed.Pragma(key, "".join(value), tree.span)
            case "plan":
                return parsed.PlanDirective(tuple(map(self._order, subtrees(tree))), tree.span)
            case _:
                return self._type(tree)

    def fact(self, tokens: Sequence[PlacedToken]) -> parsed.Clause:
        """The fact of these tokens: a name, literals between brackets and commas, a dot."""
        name, first, last = (tokens[i].span for i in (0, 2, -1))
        arguments = [self.literal(tokens[2], first)]
        arguments += [self.literal(t, t.span) for t in tokens[4:-2:2]]
        bracket = tokens[-2].span
        atom = syntax.Atom(str(tokens[0]), tuple(arguments), name.to(bracket), name)
        return parsed.Clause((atom,), None, name.to(last))

    # --- declarations ----------------------------------------------------------------------------

    def _relation(self, tree: ParseTree) -> parsed.RelationDeclaration:
        _, names, _, attributes, _, qualifiers, choices = tree.children
        return parsed.RelationDeclaration(
            self._names(names),
            self._attributes(attributes),
            self._names(qualifiers),
            tree.span,
            tuple(self._names(d.children[min(1, len(d.children) - 1)]) for d in subtrees(choices)),
        )

    def _attributes(self, tree: Child) -> tuple[parsed.AttributeDeclaration, ...]:
        columns = []
        for attribute in subtrees(tree):
            name, _, type_name = _tokens(attribute)
            columns.append(
                parsed.AttributeDeclaration(
                    str(name),
                    str(type_name),
                    attribute.span,
                    type_name.span,
                    self._join(attribute.children[-1]),
                )
            )
        return tuple(columns)

    def _branches(self, tree: ParseTree) -> tuple[parsed.BranchDeclaration, ...]:
        if tree.data == "record_type":
            name = self.name(cast(PlacedToken, tree.children[1]))
            return (parsed.BranchDeclaration(replace(name, text=""), self._attributes(tree.children[4])),)
        return tuple(
            parsed.BranchDeclaration(
                self.name(cast(PlacedToken, branch.children[0])), self._attributes(branch.children[2])
            )
            for branch in subtrees(tree)
        )

    def _type(self, tree: ParseTree) -> parsed.TypeDeclaration:
        if tree.data in ("record_type", "adt_type"):
            named = self.name(cast(PlacedToken, tree.children[1]))
            structured_form: parsed.TypeForm = "record" if tree.data == "record_type" else "adt"
            branches = self._branches(tree)
            return parsed.TypeDeclaration(named, structured_form, (), tree.span, branches=branches)
        names = [self.name(token) for token in _tokens(tree) if token.type in ("IDENT", "QUALIFIED")]
        parents = tuple(names[1:])
        form: parsed.TypeForm = "subtype"
        if tree.data == "alias_or_union":
            form = "alias" if len(parents) == 1 else "union"
        deprecated = tree.data == "old_type"
        if deprecated:
            kind = "number" if _tokens(tree)[0].type == "NUMBER_TYPE" else "symbol"
            parents = (syntax.Name(kind, names[0].span),)
        return parsed.TypeDeclaration(names[0], form, parents, tree.span, deprecated)

    def _directive(self, tree: ParseTree) -> parsed.Directive:
        kind, names, _, parameters, _ = tree.children
        values: list[tuple[str, str]] = []
        for parameter in subtrees(parameters):
            key, _, value = _tokens(parameter)
            text = self.text_of(value) if value.type == "STRING" else str(value)
            values.append((str(key), text))
        name = cast(parsed.DirectiveKind, str(kind)[1:])
        return parsed.Directive(name, self._names(names), tuple(values), tree.span)

    def _functor(self, tree: ParseTree) -> parsed.FunctorDeclaration:
        name, result = (self.name(cast(PlacedToken, tree.children[place])) for place in (1, 6))
        parameters = list(subtrees(tree.children[3]))
        types = tuple(self.name(_tokens(parameter)[-1]) for parameter in parameters)
        marks = [*(parameter.children[-1] for parameter in parameters), tree.children[7]]
        return parsed.FunctorDeclaration(name, types, result, tree.span, tuple(map(self._join, marks)))

    def _join(self, tree: Child) -> syntax.Name | None:
        """The join in `T<join>`, which is empty in `T<>`; None without one."""
        if not isinstance(tree, ParseTree):
            return None
        return syntax.Name("".join(map(str, _tokens(tree)[1:-1])), tree.span)

    def _lattice(self, tree: ParseTree) -> parsed.LatticeDeclaration:
        parts = (
            (self.name(cast(PlacedToken, part.children[0])), self.term(part.children[3]))
            for part in subtrees(tree)
        )
        return parsed.LatticeDeclaration(self.name(_tokens(tree)[1]), tuple(parts), tree.span)

    def _component_type(self, tree: ParseTree) -> parsed.ComponentType:
        name, _, parameters, _ = tree.children
        return parsed.ComponentType(self.name(cast(PlacedToken, name)), self._names(parameters), tree.span)

    def _order(self, tree: ParseTree) -> parsed.PlanOrder:
        version, *positions = [
            self.number(str(token), token.span) for token in _tokens(tree) if token.type == "NUMBER"
        ]
        return parsed.PlanOrder(version, tuple(positions), tree.span)

    def _names(self, tree: Child) -> tuple[syntax.Name, ...]:
        if isinstance(tree, PlacedToken):
            return (self.name(tree),)
        return tuple(self.name(token) for token in _tokens(tree) if token.type != "COMMA")

    def _subsumption(self, tree: ParseTree) -> parsed.Clause:
        numbers = count(1)
        dominated, dominating = (_without_wildcards(self.atom(tree.children[at]), numbers) for at in (0, 2))
        body = self.formula(tree.children[4])
        conjunction = syntax.Conjunction((dominated, dominating, body), body.span)
        return parsed.Clause((dominated,), conjunction, tree.span, subsumes=True)


def _without_wildcards(node: N, numbers: Iterator[int]) -> N:
    """The node with a variable for every `_`, with a name that no source text can contain.

    The name starts with an underscore, so that a single use of the variable gives no warning.
    """
    if isinstance(node, syntax.Wildcard):
        return cast(N, syntax.Variable(f"_#{next(numbers)}", node.span))
    return map_children(node, lambda part: _without_wildcards(part, numbers))


def _component_types(tree: ParseTree) -> Iterator[ParseTree]:
    yield subtree(tree, 1)
    yield from subtrees(tree.children[3])


def _tokens(tree: Child) -> list[PlacedToken]:
    if not isinstance(tree, ParseTree):
        return []
    return [child for child in tree.children if isinstance(child, PlacedToken)]


def depth(tree: ParseTree) -> int:
    """The depth of a parse tree, computed without recursion."""
    deepest, stack = 0, [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in node.children if isinstance(child, ParseTree))
    return deepest
