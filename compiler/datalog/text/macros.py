"""Macros: their definitions, and their expansion to tokens.

    #define LIMIT 10                      LIMIT
    #define STEP(x, y) edge(x, y), x < y  STEP(a, b + 1)
    #define FIELD(r, f) r ## _ ## f       FIELD(node, name)    is    node_name
    #define SHOW(x) #x                    SHOW(a + b)          is    "a + b"

As in C: the arguments are expanded before they are substituted, except next to `#` and `##`; the
result is scanned again, together with the tokens that follow; and a macro is not expanded within
itself. For the last, every token carries the names of the macros that it comes from (the hide sets
of D. Prosser's algorithm, X3J11/86-196).

A token from a macro's body has the span of the use of the macro; a token from an argument has the
span of the argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from dbsp.compiler.datalog.text.lexer import Lexer, PlacedToken, placed
from dbsp.compiler.datalog.text.report import Report
from dbsp.diagnostics import SourceSpan
from dbsp.lazy_dataclass import dataclass

MAX_TOKENS = 1_000_000
"""The limit on tokens from macros: a few lines of macros can expand to any number of tokens."""

Hidden: TypeAlias = tuple[PlacedToken, frozenset[str]]
_NOT_HIDDEN: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Macro:
    """`#define name(parameters) body`; `parameters` is None for `#define name body`."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[PlacedToken, ...]
    span: SourceSpan = field(compare=False)


class Expander:
    """The tokens of a program with its macros expanded; `macros` may change while they are read."""

    def __init__(self, tokens: Iterator[PlacedToken], macros: Mapping[str, Macro], report: Report) -> None:
        self.source = tokens
        self.macros = macros
        self.report = report
        self.pending: deque[Hidden] = deque()
        self.token_count = 0

    def expanded(self) -> Iterator[Hidden]:
        """The remaining tokens with macros expanded, each with the macros that it comes from."""
        while (next_token := self._next()) is not None:
            token, hidden = next_token
            if token.type == "QUALIFIED":
                yield self._expand_qualified(token, {}), hidden
                continue
            macro = self.macros.get(token)
            if (
                macro is None
                or token.type == "BROKEN"
                or token in hidden
                or not self._expand(macro, token, hidden)
            ):
                yield token, hidden

    def _expand_qualified(
        self, token: PlacedToken, arguments: Mapping[str, Sequence[PlacedToken]]
    ) -> PlacedToken:
        """A qualified name with its macros and parameters replaced: in C it is several tokens."""
        if token.type != "QUALIFIED":
            return token
        parts: list[str] = []
        for part in token.split("."):
            macro, seen = self.macros.get(part), {part}
            body = arguments.get(part, () if macro is None or macro.parameters is not None else macro.body)
            while len(body) == 1 and body[0].type in ("IDENT", "QUALIFIED") and body[0] not in seen:
                part = str(body[0])
                seen.add(part)
                macro = self.macros.get(part)
                body = () if macro is None or macro.parameters is not None else macro.body
            parts.append(part)
        if parts == token.split("."):
            return token
        return placed(token.type, ".".join(parts), token.span, token.start, token.end)

    def _next(self) -> Hidden | None:
        if self.pending:
            return self.pending.popleft()
        token = next(self.source, None)
        return None if token is None else (token, _NOT_HIDDEN)

    def _expand(self, macro: Macro, token: PlacedToken, hidden: frozenset[str]) -> bool:
        """Push the macro's expansion onto the pending tokens; false without a call of the macro."""
        if macro.parameters is None:
            self._push(self._body(macro, token.span, [], []), hidden | {macro.name})
            return True
        bracket = self._next()
        if bracket is None or bracket[0].type != "LPAREN":
            if bracket is not None:
                self.pending.appendleft(bracket)
            return False
        arguments, end = self._arguments(macro, token)
        if end is None:
            self.pending.append((_broken(token, token.span), hidden))
            return True
        span = token.span.to(end[0].span)
        if len(arguments) != len(macro.parameters):
            expected, given = len(macro.parameters), len(arguments)
            message = (
                f"macro '{macro.name}' takes {expected} argument{'' if expected == 1 else 's'}, but"
                f" {given} {'is' if given == 1 else 'are'} given"
            )
            self.report.error(span, message, f"defined at {macro.span.place}", code="wrong-arity")
            self.pending.appendleft((_broken(token, span), hidden))
            return True
        expanded = [self._expand_argument(argument) for argument in arguments]
        plain = [[token for token, _ in argument] for argument in arguments]
        self._push(self._body(macro, span, plain, expanded), (hidden & end[1]) | {macro.name})
        return True

    def _push(self, tokens: Sequence[Hidden], hidden: frozenset[str]) -> None:
        self.token_count += len(tokens)
        if self.token_count > MAX_TOKENS:
            message = f"the macros expand to more than {MAX_TOKENS:,} tokens"
            self.report.error(tokens[0][0].span, message, code="program-too-large")
            self.report.raise_errors()
        self.pending.extendleft((token, before | hidden) for token, before in reversed(tokens))

    def _arguments(self, macro: Macro, name: PlacedToken) -> tuple[list[list[Hidden]], Hidden | None]:
        """The arguments as lists of tokens, and the closing bracket."""
        arguments: list[list[Hidden]] = [[]]
        depth = 0
        while (next_token := self._next()) is not None:
            kind = next_token[0].type
            if kind == "RPAREN" and depth == 0:
                none = not macro.parameters and arguments == [[]]
                return ([] if none else arguments), next_token
            depth += (kind == "LPAREN") - (kind == "RPAREN")
            if kind == "COMMA" and depth == 0:
                arguments.append([])
            else:
                arguments[-1].append(next_token)
        message = f"the arguments of macro '{name}' are never closed"
        self.report.error(name.span, message, "add the missing ')'", code="unclosed")
        return [], None

    def _expand_argument(self, argument: Sequence[Hidden]) -> list[Hidden]:
        """An argument with its macros expanded."""
        inner = Expander(iter(()), self.macros, self.report)
        inner.pending.extend(argument)
        found = list(inner.expanded())
        self.token_count += inner.token_count
        return found

    def _body(
        self,
        macro: Macro,
        span: SourceSpan,
        plain: Sequence[Sequence[PlacedToken]],
        expanded: Sequence[Sequence[Hidden]],
    ) -> list[Hidden]:
        """The body with the arguments in place of the parameters."""
        places = {name: place for place, name in enumerate(macro.parameters or ())}
        found: list[Hidden] = []
        paste = False  # whether the previous token is `##`
        empty = True  # whether the previous token expanded to nothing
        body = macro.body
        position = 0
        while position < len(body):
            token = body[position]
            position += 1
            after = body[position] if position < len(body) else None
            if token == "##":
                paste = not empty
                continue
            if token == "#" and after is not None and after in places:
                piece: list[Hidden] = [(_quoted(plain[places[after]], span), frozenset())]
                position += 1
            elif token in places and (paste or after == "##"):
                piece = [(argument_token, frozenset()) for argument_token in plain[places[token]]]
            elif token in places:
                piece = list(expanded[places[token]])
            else:
                given = {name: plain[place] for name, place in places.items()}
                piece = [(self._expand_qualified(token, given).moved(span), frozenset())]
            if paste and piece:
                piece[0] = (self._pasted(found.pop()[0], piece[0][0], span), frozenset())
            empty = not piece and not paste
            paste = False
            found.extend(piece)
        return found

    def _pasted(self, left: PlacedToken, right: PlacedToken, span: SourceSpan) -> PlacedToken:
        text = f"{left}{right}"
        tokens = list(Lexer(text, Report("", text)).tokens())
        if len(tokens) != 1 or tokens[0].type.startswith("BROKEN"):
            message = f"'##' joins '{left}' and '{right}', which do not form one word"
            self.report.error(span, message, code="invalid-macro")
            return _broken(left, span)
        return tokens[0].moved(span)


def _broken(token: PlacedToken, span: SourceSpan) -> PlacedToken:
    """A token at which the parser stops without a message, as its error is already reported."""
    return placed("BROKEN", str(token), span, 0, 0)


def _quoted(tokens: Sequence[PlacedToken], span: SourceSpan) -> PlacedToken:
    """The text of an argument as a string literal."""
    words: list[str] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        blank = before is not None and before.end != token.start
        text = str(token)
        if token.type == "STRING":
            text = text.replace("\\", "\\\\").replace('"', '\\"')
        words.append(f" {text}" if blank else text)
    return placed("STRING", f'"{"".join(words)}"', span, 0, 0)
