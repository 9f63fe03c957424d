"""Small edits of a source text, placed by its syntax tree; the rest of the text is unchanged."""

from __future__ import annotations

import ast

from examples.stdlib_demo.source import absolute_module


def drop_import(text: str, module: str, *, package: bool, imported: str) -> str:
    """Return the text without the import statements that run `imported`. Raises ValueError."""
    out = text
    # From the end, so that earlier positions stay valid.
    for node in sorted(_statements(text), key=lambda node: -node.lineno):
        if isinstance(node, ast.Import):
            kept = [item for item in node.names if item.name != imported]
        elif isinstance(node, ast.ImportFrom):
            base = absolute_module(module, package, node.level, node.module)
            names = node.names if base != imported else []
            kept = [item for item in names if f"{base}.{item.name}" != imported]
        else:
            continue
        if len(kept) < len(node.names):
            changed = type(node)(**{**{name: getattr(node, name) for name in node._fields}, "names": kept})
            out = _replace(out, node, node, ast.unparse(changed) if kept else "pass")
    if out == text:
        raise ValueError(f"{module} does not import {imported}")
    return out


def add_statement(text: str, function: str, statement: str) -> str:
    """Insert `statement` at the start of a function, named as in its file: `JSONDecoder.decode`."""
    body = _function(text, function).body
    starts_with_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    place = _start(text, body[1] if starts_with_docstring and len(body) > 1 else body[0])
    encoded = text.encode()
    before = encoded[encoded.rfind(b"\n", 0, place) + 1 : place]
    glue = b"\n" + before if before.isspace() else b"; "
    return (encoded[:place] + statement.encode() + glue + encoded[place:]).decode()


def empty_body(text: str, function: str) -> str:
    """Replace the body of a function by `pass`."""
    body = _function(text, function).body
    return _replace(text, body[0], body[-1], "pass")


def _statements(text: str) -> list[ast.stmt]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]


def _function(text: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    where: ast.AST = ast.parse(text)
    for part in name.replace(".<locals>", "").split("."):
        inside = [
            node
            for node in ast.walk(where)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == part
        ]
        if not inside:
            raise ValueError(f"no function {name} in this text")
        where = inside[0]
    if not isinstance(where, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise ValueError(f"{name} is a class")
    return where


def _replace(text: str, first: ast.stmt, last: ast.stmt, new: str) -> str:
    assert last.end_lineno is not None and last.end_col_offset is not None
    encoded = text.encode()
    end = _offset(text, last.end_lineno, last.end_col_offset)
    return (encoded[: _start(text, first)] + new.encode() + encoded[end:]).decode()


def _start(text: str, node: ast.stmt) -> int:
    marks: list[ast.expr] = getattr(node, "decorator_list", [])
    if marks:
        return _offset(text, marks[0].lineno, marks[0].col_offset) - 1  # the @ itself
    return _offset(text, node.lineno, node.col_offset)


def _offset(text: str, line: int, column: int) -> int:
    """Return the byte offset of a position of the syntax tree, whose columns count UTF-8 bytes."""
    return sum(len(part) for part in text.encode().splitlines(keepends=True)[: line - 1]) + column
