"""Check the words and the width of everything that people read: `make lint` runs this.

    python tests/check_prose.py [FILE ...]

It reads the comments, docstrings and messages of every Python file and the prose of every Markdown
page. It lists each banned phrase with its replacement and each line of prose beyond 100 columns.
Each line of `tests/banned_phrases.txt` has a regular expression and a replacement.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
PHRASES = Path(__file__).with_name("banned_phrases.txt")


@dataclass(frozen=True)
class Phrase:
    """A phrase that is not plain English here, and what to write instead."""

    pattern: re.Pattern[str]
    replacement: str


@dataclass(frozen=True)
class Piece:
    """A part of the prose of a file; `columns` is its width if its lines must be wrapped."""

    line: int
    text: str
    columns: int = 0


def banned_phrases() -> list[Phrase]:
    """The phrases of the list, in its order."""
    found = []
    for line in PHRASES.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, replacement = line.partition("->")
            expression = re.compile(rf"\b(?:{pattern.strip()})\b", re.IGNORECASE)
            found.append(Phrase(expression, replacement.strip()))
    return found


def python_prose(text: str) -> Iterator[Piece]:
    """Yield the comments, docstrings and other string literals of a Python file."""
    tree = ast.parse(text)
    lines = text.splitlines()
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            # Also the text below an attribute, which documents it.
            match statement:
                case ast.Expr(value=ast.Constant(value=str(), lineno=first, end_lineno=int(last))):
                    docstrings.add(first)
                    for number in range(first, last + 1):
                        line = lines[number - 1]
                        example = line.lstrip().startswith((">>>", "..."))
                        yield Piece(number, line, 0 if example else len(line))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in docstrings:
            yield Piece(node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            yield Piece(token.start[0], token.string, len(token.line.rstrip()) if alone else 0)


def markdown_prose(text: str) -> Iterator[Piece]:
    """Yield the lines of a Markdown page outside code; tables and long links may be wide."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            wide = line.startswith(("|", "<")) or bool(re.search(r"\]\([^)]{40,}\)", line))
            yield Piece(number, re.sub(r"`[^`]*`", "", line), 0 if wide else len(line))


def problems(path: Path, phrases: list[Phrase]) -> Iterator[str]:
    """Yield one line for each place in the file to correct."""
    text = path.read_text(encoding="utf-8")
    pieces = python_prose(text) if path.suffix == ".py" else markdown_prose(text)
    for piece in pieces:
        if piece.columns > WIDTH:
            yield f"{path}:{piece.line}: {piece.columns} columns of prose; wrap at {WIDTH}"
        for phrase in phrases:
            found = phrase.pattern.search(piece.text)
            if found:
                yield f"{path}:{piece.line}: '{found[0]}'; write: {phrase.replacement}"


def tracked_files() -> list[Path]:
    """The Python files and Markdown pages of the checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.splitlines() if (ROOT / name).is_file()]


def main(arguments: list[str]) -> int:
    """Print the problems of the named files, or of all files; return 1 if there are any."""
    phrases = banned_phrases()
    paths = [Path(argument) for argument in arguments] or tracked_files()
    found = [problem for path in paths for problem in problems(path, phrases)]
    print("\n".join(found) if found else f"{len(paths)} files: no problem")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
