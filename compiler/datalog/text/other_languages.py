"""What other languages write, and what to write here instead: signs, words, functions, types.

The parser (`mistakes`) and the checks of names look here for the hint of an error. The keys of
words, functions and types are in lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbsp.diagnostics import did_you_mean

# --- signs ----------------------------------------------------------------------------------------

RULE_SIGNS = dict.fromkeys(("<-", "<--", ":=", "::=", "=", "==", ":", "+=", "←", "⇐"), ":-")
"""Between a head and its body."""

REVERSED_SIGNS = frozenset({"->", "-->", "=>", "→", "⇒"})
"""Between a body and a head that follows it; in a body, between a condition and its consequence."""

# fmt: off
BODY_SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("==", "===", "=:=", ":="), "="),
    **dict.fromkeys(("<>", "\\=", "\\==", "=\\=", "!==", "/=", "~=", "≠"), "!="),
    **dict.fromkeys(("=<", "≤"), "<="),
    **dict.fromkeys(("=>", "≥"), ">="),
    **dict.fromkeys(("&&", "&", "/\\", "∧"), ","),
    **dict.fromkeys(("||", "|", "\\/", "∨"), ";"),
    **dict.fromkeys(("\\+", "~", "¬"), "!"),
    "**": "^",
}
# fmt: on

# --- words ----------------------------------------------------------------------------------------

WORDS = {"and": ",", "or": ";", "is": "=", "mod": "%", "div": "/", "where": ",", "with": ","}
"""Words between two parts of a body."""

RULE_WORDS = frozenset({"if", "when", "where", "from"})
"""Words between a head and its body."""

_CASES = "write one rule for each case"
PHRASES = {
    "like": 'write match("pattern", text), with a regular expression, or contains("part", text)',
    "between": "write two conditions: x >= 1, x <= 3",
    "in": "write an atom for rows of a relation, or alternatives: (x = 1; x = 2)",
    "group": "the variables that the rest of the rule binds are the groups: n = sum y : { e(x, y) }",
    "order": "relations have no order",
    "limit": "relations have no order, so there is no first row; .limitsize ends a recursion",
    "let": "an equation binds a variable: z = x + y",
    "exists": "write the atom; '_' in it stands for any value",
    "some": "write the atom; '_' in it stands for any value",
    "forall": "negate a relation of the counterexamples: !counterexample(x)",
    "every": "negate a relation of the counterexamples: !counterexample(x)",
    "case": _CASES,
    "then": _CASES,
    "else": _CASES,
    "return": "write a rule: head(x, y) :- body.",
}
"""Words without a sign that replaces them."""

_QUERY = "write a query as a rule with an output: result(x) :- edge(x, y), y > 1."
STATEMENTS = {
    "select": ("an SQL query", _QUERY),
    "with": ("an SQL query", _QUERY),
    "insert": ("an SQL statement", "write rows as facts: edge(1, 2)."),
    "create": ("an SQL statement", "declare a relation: .decl edge(x: number, y: number)"),
    "drop": ("an SQL statement", "remove the .decl and the rules of the relation"),
    "delete": ("an SQL statement", "delete rows in a change script or 'dbsp live': -edge(1, 2)"),
    "update": ("an SQL statement", "in 'dbsp live', delete the old row and insert the new row"),
    "def": ("a Python statement", "write a function of rows as a rule: head(x, y) :- body."),
    "import": ("a Python statement", 'include another program with: #include "file.dl"'),
    "from": ("a Python statement", 'include another program with: #include "file.dl"'),
    "for": ("a loop", "a rule ranges over all rows: head(x) :- edge(x, y)."),
    "if": ("a conditional", "write the condition in the body: head(x) :- edge(x, y), y > 1."),
    "let": ("an assignment", "write a constant as a macro: #define LIMIT 10"),
    "const": ("an assignment", "write a constant as a macro: #define LIMIT 10"),
}
"""First words of statements: what they are, and the hint."""

# --- constants ------------------------------------------------------------------------------------

CONSTANTS = {
    **dict.fromkeys(
        ("null", "none", "undefined", "nan"),
        "there is no null: leave out the row, or use a value of your choice for 'unknown'",
    ),
    **dict.fromkeys(("true", "false"), "there are no booleans: use 1 and 0, or a relation of the true rows"),
}
"""Constants, which are variables here."""

# --- aggregates and functions ---------------------------------------------------------------------

AGGREGATES = {
    **{name: name for name in ("count", "sum", "mean", "min", "max")},
    **dict.fromkeys(("avg", "average"), "mean"),
    **dict.fromkeys(("total", "summe"), "sum"),
    **dict.fromkeys(("minimum", "least"), "min"),
    **dict.fromkeys(("maximum", "greatest"), "max"),
    **dict.fromkeys(("cnt", "size", "count_distinct"), "count"),
}

_FUNCTIONS = {
    **dict.fromkeys(("len", "length", "char_length", "string_length", "atom_length"), "strlen(text)"),
    **dict.fromkeys(("concat", "concatenate", "str_cat", "string_concat", "atom_concat"), "cat(a, b)"),
    **dict.fromkeys(("substring", "slice", "sub_atom", "substr_of"), "substr(text, start, length)"),
    **dict.fromkeys(("str", "string", "text", "tostring"), "to_string(x)"),
    **dict.fromkeys(("int", "integer", "number", "tonumber", "atoi"), "to_number(text)"),
    **dict.fromkeys(("float", "double", "real"), "to_float(text), or itof(x) for a number"),
    **dict.fromkeys(("mod", "modulo", "rem"), "x % y"),
    **dict.fromkeys(("pow", "power"), "x ^ y"),
    **dict.fromkeys(("plus", "add"), "x + y"),
    **dict.fromkeys(("minus", "sub"), "x - y"),
    **dict.fromkeys(("abs", "fabs"), "max(x, -x)"),
    **dict.fromkeys(("between", "seq", "generate_series"), "range(start, end)"),
    **dict.fromkeys(("cast", "convert"), "as(x, type)"),
    **dict.fromkeys(("row_number", "rowid"), "autoinc()"),
    **dict.fromkeys(("coalesce", "ifnull", "nvl", "if", "iff", "iif", "case"), "one rule for each case"),
}
_CONDITIONS = {
    **dict.fromkeys(("startswith", "starts_with", "hasprefix"), 'match("prefix.*", text)'),
    **dict.fromkeys(("endswith", "ends_with", "hassuffix"), 'match(".*suffix", text)'),
    **dict.fromkeys(("like", "regexp", "regex", "matches", "re_match"), 'match("pattern", text)'),
    **dict.fromkeys(("includes", "has_substring", "instr"), 'contains("part", text)'),
    **dict.fromkeys(("not", "naf"), "!edge(x, y)"),
    **dict.fromkeys(("eq", "equal", "equals"), "x = y"),
    **dict.fromkeys(("neq", "ne", "dif"), "x != y"),
    **dict.fromkeys(("lt",), "x < y"),
    **dict.fromkeys(("gt",), "x > y"),
    **dict.fromkeys(("findall", "bagof", "setof", "aggregate_all"), "n = count : { edge(x, _) }"),
    **dict.fromkeys(("forall", "foreach"), "!counterexample(x)"),
    **dict.fromkeys(("assert", "asserta", "assertz"), "a fact: edge(1, 2)."),
    **dict.fromkeys(("print", "write", "writeln", "format"), "a directive: .output edge"),
    **dict.fromkeys(("member",), "an atom of a relation with a row for each member"),
    **dict.fromkeys(("nonvar", "var", "ground"), "no condition: every variable of a rule is bound"),
}


def function_hint(name: str, known: Sequence[str]) -> str:
    """The hint for a function that does not exist: what to write, or all functions."""
    instead = _FUNCTIONS.get(name.lower()) or _CONDITIONS.get(name.lower())
    if instead is not None:
        return f"write {instead}"
    return did_you_mean(name, known) or f"the functions are {', '.join(known)}"


def relation_hint(name: str, known: Iterable[str]) -> str | None:
    """The hint for a relation that is not declared: a condition elsewhere, or a misspelt name."""
    instead = _CONDITIONS.get(name.lower()) or _FUNCTIONS.get(name.lower())
    return f"write {instead}" if instead is not None else did_you_mean(name, known)


# --- types ----------------------------------------------------------------------------------------

_WHOLE = ("int", "integer", "int32", "int64", "i32", "i64", "long", "bigint", "smallint", "num")
_TEXT = ("str", "string", "text", "varchar", "char", "atom", "name", "object", "utf8")
_REAL = ("double", "real", "decimal", "numeric", "float32", "float64", "f64")
TYPES = {
    **dict.fromkeys(_WHOLE, "did you mean 'number'?"),
    **dict.fromkeys(_TEXT, "did you mean 'symbol'?"),
    **dict.fromkeys(_REAL, "did you mean 'float'?"),
    **dict.fromkeys(("uint", "uint32", "uint64", "u32", "u64"), "did you mean 'unsigned'?"),
    **dict.fromkeys(("bool", "boolean"), "did you mean 'number'? Use 1 and 0"),
    **dict.fromkeys(
        ("date", "datetime", "timestamp", "time"),
        'write symbol for a text such as "2024-05-01", or number for seconds',
    ),
    **dict.fromkeys(
        ("list", "array", "tuple", "struct", "record"),
        "declare a record type: .type List = [head: number, tail: List]",
    ),
    **dict.fromkeys(("any", "term", "var"), "a column has one type: number, symbol, float or unsigned"),
}
PRIMITIVES = ("number", "symbol", "float", "unsigned")


def is_type(name: str) -> bool:
    """Whether the name is probably meant as a type."""
    return name.lower() in TYPES or name.lower() in PRIMITIVES


def type_hint(name: str, known: Iterable[str]) -> str | None:
    """The hint for a type that is not declared."""
    return TYPES.get(name.lower()) or did_you_mean(name, known)


# --- directives -----------------------------------------------------------------------------------

DIRECTIVES = {
    **dict.fromkeys((".print", ".query", ".export", ".show", ".select", ".write"), ".output"),
    **dict.fromkeys((".load", ".read", ".facts", ".edb"), ".input"),
    **dict.fromkeys((".relation", ".rel", ".table", ".pred", ".predicate", ".def"), ".decl"),
    **dict.fromkeys((".component", ".class", ".module"), ".comp"),
    **dict.fromkeys((".instance", ".new"), ".init"),
    **dict.fromkeys((".import", ".use"), ".include"),
    **dict.fromkeys((".count", ".size"), ".printsize"),
}


def directive_hint(name: str, known: Iterable[str]) -> str | None:
    """The hint for an unknown directive, which begins with a dot."""
    if name in DIRECTIVES:
        return f"did you mean '{DIRECTIVES[name]}'?"
    return did_you_mean(name, known)
