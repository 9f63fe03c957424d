"""The LALR parser of one item: it runs the table of the grammar over the tokens.

The tree of a rule of the grammar has a child for each part of the rule: a tree, a token, or None
for an optional part that is not there. A rule with `?` whose tree would have a single child, such
as a sum of one product, makes no tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from dbsp.compiler.datalog.text.grammar_table import END, GrammarRule, grammar
from dbsp.compiler.datalog.text.lexer import PlacedToken
from dbsp.diagnostics import SourceSpan
from dbsp.errors import expect_type


class ParseTree:
    """The name of a rule, and its children."""

    __slots__ = ("children", "data")

    def __init__(self, data: str, children: list[Child]) -> None:
        self.data = data
        self.children = children

    @property
    def span(self) -> SourceSpan:
        """The place from the first to the last token of the tree."""
        return _edge(self, iter).to(_edge(self, reversed))


Child: TypeAlias = "ParseTree | PlacedToken | None"


def _edge(tree: ParseTree, order: Callable[[list[Child]], Iterator[Child]]) -> PlacedToken:
    """The first token of a tree in an order of the children; trees without a token are empty."""
    while True:
        for child in order(tree.children):
            if isinstance(child, PlacedToken):
                return child
            if child is not None and child.children:
                tree = child
                break
        else:
            raise AssertionError(f"the parse tree of {tree.data} has no token")


Reduction: TypeAlias = "tuple[str, int, GrammarRule | None, bool]"
"""The symbol that a rule defines, the number of its parts, the rule, and whether the parts are the
children. A rule of one part that takes the place of its tree is None."""


@cache
def _reductions() -> tuple[Reduction, ...]:
    """The reductions of the rules of the grammar, the last rule first.

    So the action -1 - r is the index of rule r.
    """
    return tuple(
        (
            rule.origin,
            rule.size,
            None if rule.passes_single and rule.parts == (0,) else rule,
            rule.parts == tuple(range(rule.size)),
        )
        for rule in reversed(grammar().rules)
    )


@cache
def _passed(below: int, origin: str, kind: str) -> int:
    """The state after a tree becomes an `origin`, and further rules of one part pass it on.

    A variable becomes a power, a product, a sum and so on, up to a term: a dozen rules that depend
    on the state below it and on the next token only.
    """
    actions = grammar().actions
    while True:
        state = actions[below][origin]
        action = actions[state].get(kind)
        if action is None or action >= 0:
            return state
        origin, _, rule, _ = _reductions()[action]
        if rule is not None:
            return state


class ItemParser:
    """The stack of the parser: states, and the tree or token that led to each except the first."""

    def __init__(self) -> None:
        self._actions = grammar().actions
        self._reductions = _reductions()
        self._states = [0]
        self._children: list[Child] = []

    def read(self, tokens: Sequence[PlacedToken], position: int) -> int:
        """Read tokens from `position` on; return the position after the last one that was read.

        The parser stops after a dot, and before a token that the grammar does not accept.
        """
        while position < len(tokens):
            token = tokens[position]
            state = self._state_after(token.type)
            if state is None:
                break
            self._states.append(state)
            self._children.append(token)
            position += 1
            if token.type == "DOT":
                break
        return position

    def finished(self) -> ParseTree | None:
        """The tree of the item, if the item ends after the tokens that were read."""
        if self._state_after(END) is None:
            return None
        (tree,) = self._children
        return expect_type(tree, ParseTree, "the parse tree of an item")

    def copy(self) -> ItemParser:
        """A parser that continues from here. Only one of both may build a tree."""
        parser = ItemParser()
        parser._states, parser._children = self._states.copy(), self._children.copy()
        return parser

    def accepted(self) -> frozenset[str]:
        """The types of the tokens that the grammar accepts next."""
        kinds = filter(str.isupper, self._actions[self._states[-1]])
        return frozenset(kind for kind in kinds if self.copy()._state_after(kind) is not None)

    def _state_after(self, kind: str) -> int | None:
        """Reduce the rules that end before a token of this type; return the state after it.

        None if the grammar does not accept the token.
        """
        states, actions = self._states, self._actions
        while True:
            action = actions[states[-1]].get(kind)
            if action is None or action >= 0:
                return action
            origin, size, rule, plain = self._reductions[action]
            if rule is None:
                states[-1] = _passed(states[-2], origin, kind)
            else:
                self._reduce(rule, size, plain)
                states.append(actions[states[-1]][origin])

    def _reduce(self, rule: GrammarRule, size: int, plain: bool) -> None:
        """Replace the parts of a rule by its tree."""
        start = len(self._children) - size
        parts = self._children[start:]
        del self._children[start:], self._states[start + 1 :]
        children = parts if plain else _children(rule, parts)
        single = rule.passes_single and len(children) == 1
        self._children.append(children[0] if single else ParseTree(rule.tree, children))


def _children(rule: GrammarRule, parts: list[Child]) -> list[Child]:
    """The children of the tree of a rule."""
    children: list[Child] = []
    for position in rule.parts:
        if position is None:
            children.append(None)
        elif position >= 0:
            children.append(parts[position])
        else:
            inner = expect_type(parts[-1 - position], ParseTree, "the parse tree of a list").children
            # The list of a left-recursive rule grows in place: to copy it would be quadratic.
            children = children + inner if children else inner
    return children
