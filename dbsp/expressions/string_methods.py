"""Methods of expressions over strings: the namespace `.str`."""

from __future__ import annotations

from typing import Any

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.expressions.method_namespace import E, MethodNamespace


@methods_end_at_caller
class StringMethods(MethodNamespace[E]):
    """The methods of an expression over strings, as `col("s").str.upper()`.

    They mean the same as in Python where Python has them. The result over None is None.
    """

    __slots__ = ()
    _name = "str"
    _not_a_value = 'call a method, such as col("s").str.upper()'

    def concat(self, *others: Any) -> E:
        """Return the strings joined end to end.

        Parameters:
            others: strings or expressions.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.concat("-", col("s"))))
            >>> circuit.start().step({"a": [("ab",)]})["out"].rows()
            [('ab-ab',)]
        """
        return self._expression._call("cat", *others)

    def substr(self, start: Any, count: Any) -> E:
        """Return at most `count` characters from position `start`; "" if `start` is outside.

        Parameters:
            start: the position of the first character, counted from 0.
            count: the largest number of characters.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.substr(1, 2)))
            >>> circuit.start().step({"a": [("abcd",), ("a",)]})["out"].rows()
            [('',), ('bc',)]
        """
        return self._expression._call("substr", start, count)

    def upper(self) -> E:
        """Return the string in upper case.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.upper()))
            >>> circuit.start().step({"a": [("ab",)]})["out"].rows()
            [('AB',)]
        """
        return self._expression._call("upper")

    def lower(self) -> E:
        """Return the string in lower case.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.lower()))
            >>> circuit.start().step({"a": [("AB",)]})["out"].rows()
            [('ab',)]
        """
        return self._expression._call("lower")

    def contains(self, part: Any) -> E:
        """Return whether a text occurs in the string; the text is not a pattern.

        `extract(pattern, 0)` finds a pattern, and is None without a match.

        Parameters:
            part: a string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.contains("b")))
            >>> circuit.start().step({"a": [("abc",), ("xyz",)]})["out"].rows()
            [(False,), (True,)]
        """
        return self._expression._call("contains", part)

    def startswith(self, prefix: Any) -> E:
        """Return whether the string starts with `prefix`.

        Parameters:
            prefix: a string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.startswith("a")))
            >>> circuit.start().step({"a": [("abc",), ("xyz",)]})["out"].rows()
            [(False,), (True,)]
        """
        return self._expression._call("startswith", prefix)

    def endswith(self, suffix: Any) -> E:
        """Return whether the string ends with `suffix`.

        Parameters:
            suffix: a string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.endswith("c")))
            >>> circuit.start().step({"a": [("abc",), ("xyz",)]})["out"].rows()
            [(False,), (True,)]
        """
        return self._expression._call("endswith", suffix)

    def matches(self, pattern: Any) -> E:
        """Return whether the whole string matches a regular expression of Python's `re`.

        Parameters:
            pattern: the regular expression, a string or an expression.

        Raises:
            EvaluationError: the pattern is not a regular expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.matches("a.*")))
            >>> circuit.start().step({"a": [("abc",), ("xyz",)]})["out"].rows()
            [(False,), (True,)]
        """
        return self._expression._call("matches", pattern)

    def ord(self) -> E:
        """Return a number that differs for different strings of a run; not in their order.

        Examples:
            >>> circuit = Circuit("example")
            >>> same = col("s").str.ord() == lit("b").str.ord()
            >>> circuit.output("out", circuit.input("a", s=str).map(v=same))
            >>> circuit.start().step({"a": [("a",), ("b",)]})["out"].rows()
            [(False,), (True,)]
        """
        return self._expression._call("ord")

    def title(self) -> E:
        """Return the string with each word in lower case after an upper-case first letter.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.title()))
            >>> circuit.start().step({"a": [("ada LOVELACE",)]})["out"].rows()
            [('Ada Lovelace',)]
        """
        return self._expression._call("title")

    def strip(self, characters: Any = None) -> E:
        """Return the string without white space at both ends.

        Parameters:
            characters: the characters to remove instead, as one string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> source = circuit.input("a", s=str)
            >>> circuit.output("out", source.map(v=col("s").str.strip(), w=col("s").str.strip("- ")))
            >>> circuit.start().step({"a": [(" -ab- ",)]})["out"].rows()
            [('-ab-', 'ab')]
        """
        return self._optional("strip", characters)

    def lstrip(self, characters: Any = None) -> E:
        """Return the string without white space at its start.

        Parameters:
            characters: the characters to remove instead, as one string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.lstrip("0")))
            >>> circuit.start().step({"a": [("00700",)]})["out"].rows()
            [('700',)]
        """
        return self._optional("lstrip", characters)

    def rstrip(self, characters: Any = None) -> E:
        """Return the string without white space at its end.

        Parameters:
            characters: the characters to remove instead, as one string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.rstrip("0")))
            >>> circuit.start().step({"a": [("00700",)]})["out"].rows()
            [('007',)]
        """
        return self._optional("rstrip", characters)

    def replace(self, old: Any, new: Any) -> E:
        """Replace every occurrence of a part; the part is a text and not a pattern.

        Parameters:
            old: the part, a string or an expression.
            new: its replacement, a string or an expression.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.replace(".", "-")))
            >>> circuit.start().step({"a": [("1.2.3",)]})["out"].rows()
            [('1-2-3',)]
        """
        return self._expression._call("replace", old, new)

    def replace_pattern(self, pattern: Any, new: Any) -> E:
        r"""Replace every match of a regular expression, as `re.sub` of Python.

        Parameters:
            pattern: the regular expression, a string or an expression.
            new: the replacement, in which `\1` is the first group.

        Raises:
            EvaluationError: the pattern is not a regular expression, or the replacement names a
                group that it does not have.

        Examples:
            >>> circuit = Circuit("example")
            >>> swapped = col("s").str.replace_pattern(r"(\w+) (\w+)", r"\2 \1")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=swapped))
            >>> circuit.start().step({"a": [("Ada Lovelace",)]})["out"].rows()
            [('Lovelace Ada',)]
        """
        return self._expression._call("replace_pattern", pattern, new)

    def extract(self, pattern: Any, group: Any = 1) -> E:
        r"""Return a group of the first match of a regular expression; None without a match.

        The result is also None if the match has no text for the group.

        Parameters:
            pattern: the regular expression, a string or an expression.
            group: the number of the group; 0 is the whole match.

        Raises:
            EvaluationError: the pattern is not a regular expression, or has no such group.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.extract(r"#(\d+)")))
            >>> circuit.start().step({"a": [("see #17",), ("none",)]})["out"].rows()
            [(None,), ('17',)]
        """
        return self._expression._call("extract", pattern, group)

    def split(self, separator: Any = None) -> E:
        """Return the parts of the string between separators, as a list of strings.

        Parameters:
            separator: a string or an expression; by default any white space, without empty parts.

        Raises:
            EvaluationError: the separator of a row is the empty string.

        Examples:
            >>> circuit = Circuit("example")
            >>> parts = circuit.input("a", s=str).map(part=col("s").str.split(","))
            >>> circuit.output("out", parts.explode("part"))
            >>> circuit.start().step({"a": [("x,y,x",)]})["out"].to_dict()
            {('x',): 2, ('y',): 1}
        """
        return self._optional("split", separator)

    def pad_start(self, width: Any, fill: Any = " ") -> E:
        """Return the string with characters before it, up to a width.

        Parameters:
            width: the number of characters of the result; a longer string is unchanged.
            fill: the character to fill with, a string of one character or an expression.

        Raises:
            EvaluationError: `fill` is not one character.
            ValueOutOfRangeError: the width of a row is more than 10,000,000.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.pad_start(3, "0")))
            >>> circuit.start().step({"a": [("7",), ("1234",)]})["out"].rows()
            [('007',), ('1234',)]
        """
        return self._expression._call("pad_start", width, fill)

    def pad_end(self, width: Any, fill: Any = " ") -> E:
        """Return the string with characters after it, up to a width.

        Parameters:
            width: the number of characters of the result; a longer string is unchanged.
            fill: the character to fill with, a string of one character or an expression.

        Raises:
            EvaluationError: `fill` is not one character.
            ValueOutOfRangeError: the width of a row is more than 10,000,000.

        Examples:
            >>> circuit = Circuit("example")
            >>> circuit.output("out", circuit.input("a", s=str).map(v=col("s").str.pad_end(3, ".")))
            >>> circuit.start().step({"a": [("7",), ("1234",)]})["out"].rows()
            [('1234',), ('7..',)]
        """
        return self._expression._call("pad_end", width, fill)

    def _optional(self, function: str, argument: Any) -> E:
        given = () if argument is None else (argument,)
        return self._expression._call(function, *given)
