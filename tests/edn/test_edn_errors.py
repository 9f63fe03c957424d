"""The errors of the EDN reader: message, place, caret and hint."""

from __future__ import annotations

import pytest

from dbsp.edn import read
from dbsp.errors import EdnError, InputError

CASES = [
    # Brackets
    ("[1 2", "edn-bracket", "1:1", "^", "the vector that starts here does not end", "end it with ]"),
    ("(1 [2]", "edn-bracket", "1:1", "^", "the list that starts here does not end", "end it with )"),
    ("{:a #{", "edn-bracket", "1:5", "^^", "the set that starts here does not end", "end it with }"),
    ("{", "edn-bracket", "1:1", "^", "the map that starts here does not end", "end it with }"),
    ("[1\n (2]", "edn-bracket", "2:4", "^", "expected ), got ]", None),
    ("#{1]", "edn-bracket", "1:4", "^", "expected }, got ]", None),
    ("1 )", "edn-bracket", "1:3", "^", ") closes nothing", "remove the )"),
    ("[1 #_]", "edn-bracket", "1:6", "^", "expected a value after #_, got ]", "#_ discards the value"),
    ("[#foo]", "edn-bracket", "1:6", "^", "expected a value after #foo, got ]", None),
    ("1 #_", "edn-bracket", "1:3", "^^", "expected a value after #_, got the end of the text", None),
    ('[1 "a]', "edn-bracket", "1:4", "^", "the string does not end", 'end it with "'),
    ('"a\\"', "edn-bracket", "1:1", "^", "the string does not end", 'end it with "'),
    ('"a\\', "edn-bracket", "1:1", "^", "the string does not end", 'end it with "'),
    ('#"a', "edn-bracket", "1:1", "^^", "the regular expression does not end", 'end it with "'),
    # Maps and sets
    ("{:a 1 :b}", "edn-map", "1:7", "^^", "expected a value for each key of the map, got 3 keys and values",
     "the key :b has no value"),
    ("{:a 1\n :a 2}", "edn-duplicate", "2:2", "^^", "duplicate key :a", None),
    ("#{1 [2] [2]}", "edn-duplicate", "1:9", "^^^", "duplicate element [2]", None),
    ("#{1 true}", "edn-duplicate", "1:5", "^^^^", "the elements 1 and true are equal", "Python compares"),
    ("{1 :a 1.0 :b}", "edn-duplicate", "1:7", "^^^", "the keys 1 and 1.0 are equal", "Python compares"),
    ("#{(1) [1]}", "edn-duplicate", "1:7", "^^^", "the elements (1) and [1] are equal", "lists like vectors"),
    ("#:a{:b 1 :a/b 2}", "edn-duplicate", "1:10", "^^^^", "duplicate key :a/b", None),
    ("#{##NaN ##NaN}", "edn-duplicate", "1:9", "^^^^^", "duplicate element ##NaN", None),
    # Numbers
    ("007", "edn-number", "1:1", "^^^", "expected a number, got '007'", "do not start with 0: write 7"),
    ("-00", "edn-number", "1:1", "^^^", "expected a number, got '-00'", "write -0"),
    (".5", "edn-number", "1:1", "^^", "expected a number, got '.5'", "write 0.5"),
    ("-.5", "edn-number", "1:1", "^^^", "expected a number, got '-.5'", "write -0.5"),
    ("1.", "edn-number", "1:1", "^^", "expected a number, got '1.'", "write 1.0"),
    ("0xFF", "edn-number", "1:1", "^^^^", "expected a number, got '0xFF'", "write a decimal number: 255"),
    ("1_000", "edn-number", "1:1", "^^^^^", "expected a number, got '1_000'", "write 1000"),
    ("2024-01-31", "edn-number", "1:1", "^" * 10, "expected a number, got '2024-01-31'", "write instants as"),
    ("12abc", "edn-number", "1:1", "^^^^^", "expected a number, got '12abc'", None),
    ("1e", "edn-number", "1:1", "^^", "expected a number, got '1e'", None),
    ("1.5N", "edn-number", "1:1", "^^^^", "expected a number, got '1.5N'", None),
    ("[1 2/0]", "edn-number", "1:4", "^^^", "expected a denominator other than 0", None),
    ("1e999", "edn-number", "1:1", "^^^^^", "the number is outside the range of a float", "write ##Inf"),
    ("1e99999999999999999999M", "edn-number", "1:1", "^" * 23, "the exponent is outside the range", None),
    ("1" * 4301, "edn-number", "1:1", "^", "expected a number of at most 4300 digits", None),
    ("1/" + "1" * 4301, "edn-number", "1:1", "^", "expected a number of at most 4300 digits", None),
    # Names and chars
    ("'(1)", "edn-token", "1:1", "^", 'expected a symbol, got "\'"', "EDN has no quote: leave out the '"),
    ("@x", "edn-token", "1:1", "^^", "expected a symbol, got '@x'", "@ is a sign of Clojure"),
    ("a/b/c", "edn-token", "1:1", "^^^^^", "expected a symbol, got 'a/b/c'", "at most one slash"),
    ("a/", "edn-token", "1:1", "^^", "expected a symbol, got 'a/'", None),
    ("a/1", "edn-token", "1:1", "^^^", "expected a symbol, got 'a/1'", None),
    ("##Info", "edn-token", "1:1", "^^^^^^", "expected a symbol, got '##Info'", "##Inf, ##-Inf and ##NaN"),
    (":", "edn-token", "1:1", "^", "expected a keyword, got ':'", "immediately after the colon"),
    ("::a", "edn-token", "1:1", "^^^", "expected a keyword, got '::a'", "such as :my.app/a"),
    (":a/b/c", "edn-token", "1:1", "^^^^^^", "expected a keyword, got ':a/b/c'", "at most one slash"),
    (":a/", "edn-token", "1:1", "^^^", "expected a keyword, got ':a/'", None),
    (":/", "edn-token", "1:1", "^^", "expected a keyword, got ':/'", None),
    ("\\", "edn-token", "1:1", "^", "expected a character after the backslash", "write \\space"),
    ("\\ a", "edn-token", "1:1", "^", "expected a character after the backslash", "write \\space"),
    ("\\spcae", "edn-token", "1:1", "^^^^^^", "expected a character, got 'spcae' after", "newline"),
    ("\\o400", "edn-token", "1:1", "^^^^^", "expected a character, got 'o400' after the backslash", "o351"),
    ("\\ud83d", "edn-escape", "1:1", "^^^^^^", "\\ud83d is half of a surrogate pair", None),
    ("#:a{_/nil 1}", "edn-token", "1:4", "^", "expected a symbol, such as", None),
    # Escapes
    ('["a\\qb"]', "edn-escape", "1:4", "^^", "unknown escape \\q", "write \\\\ for"),
    ('"\\u12"', "edn-escape", "1:2", "^^", "unknown escape \\u", "four hexadecimal digits"),
    ('"\\777"', "edn-escape", "1:2", "^^^^", "unknown escape \\777", "octal \\377"),
    ('"\\ud83d"', "edn-escape", "1:1", "^" * 8, "the string has half of a surrogate", "as two \\u escapes"),
    ('"\\ude00\\ud83d"', "edn-escape", "1:1", "^" * 14, "the string has half of a surrogate pair", None),
    ('"\ud83d"', "invalid-encoding", "1:2", "^", "expected Unicode text, got half of a", "UTF-8"),
    # Tags
    ("#(a)", "edn-tag", "1:1", "^", "expected a tag, got '#'", "a tag starts with a letter"),
    ("# a", "edn-tag", "1:1", "^", "expected a tag, got '#'", "a tag starts with a letter"),
    ("#1 2", "edn-tag", "1:1", "^^", "expected a tag, got '#1'", "a tag starts with a letter"),
    ("#?(:clj 1)", "edn-tag", "1:1", "^^", "expected a tag, got '#?'", "EDN has no reader conditionals"),
    ("#'a", "edn-tag", "1:1", "^^^", 'expected a tag, got "#\'a"', "EDN has no references to variables"),
    ("#!a", "edn-tag", "1:1", "^^^", "expected a tag, got '#!a'", "comments start with ;"),
    ("#:1{}", "edn-tag", "1:1", "^^^", "expected a namespace, got '#:1'", "such as #:person"),
    ("#::a{}", "edn-tag", "1:1", "^^^^", "expected a namespace, got '#::a'", "such as #:person"),
    ("#:a [1]", "edn-tag", "1:5", "^^^", "expected a map after #:a, got [1]", None),
    ('#inst "soon"', "edn-tag", "1:7", "^" * 6, "expected a time of RFC 3339", None),
    ("#inst :a", "edn-tag", "1:7", "^^", "after #inst, got :a", None),
    ('#inst "2024-13"', "edn-tag", "1:7", "^" * 9, '"2024-13" after #inst is not a time: month must', None),
    ('#inst "2023-02-29"', "edn-tag", "1:7", "^" * 12, "not a time: day must be in 1..28, not 29", None),
    ('#inst "2024-02-30"', "edn-tag", "1:7", "^" * 12, "not a time: day must be in 1..29, not 30", None),
    ('#inst "2024-01-01T24"', "edn-tag", "1:7", "^" * 15, "hour must be in 0..23, not 24", None),
    ('#inst "2024-01-01T00:60"', "edn-tag", "1:7", "^" * 18, "minute must be in 0..59, not 60", None),
    ('#inst "2024-01-01T00:00:60"', "edn-tag", "1:7", "^" * 21, "second must be in 0..59, not 60", None),
    ('#inst "0000"', "edn-tag", "1:7", "^" * 6, "is not a time: year must be in 1..9999, not 0", None),
    ('#inst "0001-01-01T00:00:00+01:00"', "edn-tag", "1:7", "^" * 27, "is not a time: ", None),
    ('#inst "2024-01-01T00:00:00+24:00"', "edn-tag", "1:7", "^" * 27, "is not a time: offset must", None),
    ('#inst "2024-01-01T00:00:00+01:60"', "edn-tag", "1:7", "^" * 27, "offset minute must be in 0..59", None),
    ('#inst "2024-01-01T00:00:00.1234567Z"', "edn-tag", "1:7", "^" * 30, "expected at most microseconds",
     "leave out the digits after the sixth"),
    ('#uuid "f81d4fae"', "edn-tag", "1:7", "^" * 10, 'after #uuid, got "f81d4fae"', None),
    ("#uuid 1", "edn-tag", "1:7", "^", "after #uuid, got 1", None),
    ('#bytes "a"', "edn-tag", "1:8", "^^^", 'expected text in Base64 after #bytes, got "a"', None),
    ('#bytes #bytes "aaaa"', "edn-tag", "1:8", "^" * 13, 'Base64 after #bytes, got #bytes', None),
    # The number of values
    ("", "edn-one-value", "1:1", "^", "expected a value, got the end of the text", None),
    (" ; a\n\n", "edn-one-value", "1:5", "^", "expected a value, got the end of the text", None),
    ("1\n[2]", "edn-one-value", "2:1", "^^^", "expected one value, got 2", "read_all reads several values"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "place", "carets", "message", "hint"), CASES, ids=[c[0][:30] for c in CASES]
)
def test_errors(text: str, code: str, place: str, carets: str, message: str, hint: str | None) -> None:
    with pytest.raises(EdnError) as caught:
        read(text, "f.edn")
    error = caught.value
    assert isinstance(error, InputError)
    assert error.code == code
    rendered = str(error)
    first, _, marks, *rest = rendered.split("\n")
    assert first.startswith(f"f.edn:{place}: error: ")
    assert message in first and first.endswith(f" [{code}]")
    if len(text) < 200:
        assert set(marks.strip()) == {"^"}
        assert len(marks.strip()) >= len(carets)
        assert marks.strip() == carets or code in ("edn-token",)
        assert len(marks) - len(marks.lstrip()) == 4 + int(place.split(":")[1]) - 1
    hints = [line.removeprefix("    hint: ") for line in rest if line.startswith("    hint: ")]
    if hint is None:
        assert not hints or code == "edn-escape"
    else:
        assert len(hints) == 1 and hint in hints[0]
    rendered.encode()


def test_a_wrong_bracket_names_the_open_one() -> None:
    with pytest.raises(EdnError) as caught:
        read("[1\n  (2\n   3]", "f.edn")
    assert str(caught.value) == (
        "f.edn:3:5: error: expected ), got ] [edn-bracket]\n       3]\n        ^\n"
        "    note: the open bracket is at f.edn:2:3"
    )


def test_a_duplicate_names_the_first() -> None:
    with pytest.raises(EdnError, match=r"note: the first is at f\.edn:1:2$"):
        read("{:a 1,\n :a 2}", "f.edn")


def test_an_error_has_no_earlier_cause() -> None:
    with pytest.raises(EdnError) as caught:
        read("[1 007]")
    assert caught.value.__context__ is None or caught.value.__suppress_context__
