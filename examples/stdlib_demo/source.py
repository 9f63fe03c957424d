"""Read the names and calls of one Python file, without knowledge of other files.

A file is read scope by scope, outer scopes first, so that lookups of calls use complete tables:
function scopes, then the module (class scopes are visible in their own body only, as in Python).
The result of a lookup is a *path*, an absolute dotted name such as `os.path.join`.
`extract.Library` resolves paths into other files later. Marks inside a path:

    json.decoder.JSONDecoder().decode     `()` an instance of the class before it
    super:shlex.shlex.read_token          the method inherited from the bases of the class
    global:os.system                      a name that no scope binds: star import or builtin
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

# Node fields without names or calls; skipping them halves the time.
_DULL_FIELDS = {"ctx", "op", "ops", "kind", "type_comment", "annotation", "returns", "type_params"}
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

# If a scope binds a name twice, the binding with the highest rank counts, the first among equals.
_UNKNOWN, _ALIAS, _SEVERAL, _IMPORT, _DEFINITION = range(5)


@dataclass(slots=True)
class ModuleSource:
    """The imports, definitions and calls of one file, as paths that may lead into other files.

    `imports` holds pairs (module, name): `from a import b` gives ("a", "b"), which is the module
    `a.b` if there is one and else a name in `a`; `import a.b` gives ("a.b", "").
    """

    name: str
    path: str
    package: bool
    imports: set[tuple[str, str]] = field(default_factory=set)
    deferred: set[tuple[str, str]] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    bases: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str | None] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    calls: set[tuple[str, str]] = field(default_factory=set)
    unresolved: int = 0


def read_source(name: str, path: str, text: str | bytes, *, package: bool = False) -> ModuleSource:
    """Parse `text` as module `name`. Raises SyntaxError or ValueError, as `ast.parse` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore invalid escapes in old files
        tree = ast.parse(text, filename=path)
    return _Reader(ModuleSource(name, path, package)).read(tree)


@dataclass(slots=True)
class _Scope:
    kind: str  # "module", "class" or "function" (a lambda is a function without a name)
    qualified: str  # json.decoder.JSONDecoder.decode; the prefix of definitions inside
    caller: str  # the caller in the facts about its calls
    parent: _Scope | None
    body: list[ast.AST]
    owner: str | None = None  # the class whose methods this scope belongs to
    deferred: bool = False  # runs after the import of the module, if at all
    bound: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    extends: list[ast.expr] = field(default_factory=list)  # the bases of a class
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal
    calls: list[ast.expr] = field(default_factory=list)

    def bind(self, name: str, rank: int, path: str | None = None) -> None:
        had = self.bound.get(name)
        if had is None or rank > had[0]:
            self.bound[name] = (rank, path)
        elif rank == _ALIAS and had[0] == _ALIAS:
            self.bound[name] = (_SEVERAL, None)  # assigned twice: the current value is unknown

    def prefix(self) -> str:
        return f"{self.qualified}.<locals>" if self.kind == "function" else self.qualified


class _Reader:
    def __init__(self, found: ModuleSource) -> None:
        self.found = found

    def read(self, tree: ast.Module) -> ModuleSource:
        found = self.found
        top = _Scope("module", found.name, f"{found.name}.<module>", None, list(tree.body))
        found.functions.add(top.caller)
        pending = [top]
        while pending:
            scope = pending.pop()
            pending.extend(self._scan(scope))
            # The parents' tables are complete, because parents are scanned before their children.
            for call in scope.calls:
                path = self._path(call, scope)
                if path is None:
                    found.unresolved += 1
                else:
                    found.calls.add((scope.caller, path))
            if scope.kind == "class":
                self._note_constructors(scope)
        for name, (rank, path) in top.bound.items():
            found.names[name] = self._alias(name, top) if rank == _ALIAS else path
        return found

    # -- one scope ------------------------------------------------------------------------------

    def _scan(self, scope: _Scope) -> list[_Scope]:
        """Bind the names of a scope, list its calls, return the scopes inside it."""
        inner: list[_Scope] = []
        stack: list[ast.AST] = list(reversed(scope.body))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Name):
                if not isinstance(node.ctx, ast.Load):
                    scope.bind(node.id, _UNKNOWN)
                continue
            if isinstance(node, ast.Constant):
                continue
            if isinstance(node, _SCOPES):
                inner.append(self._open(node, scope))
                stack.extend(_outside(node))
                continue
            if isinstance(node, ast.Call):
                scope.calls.append(node.func)
            elif isinstance(node, ast.Assign):
                self._note_alias(node, scope)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._note_import(node, scope)
                continue
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                scope.outer.update(node.names)
            elif isinstance(node, ast.If) and _is_late(node.test):
                inner.append(self._late_block(node, scope))
                stack.extend(reversed(node.orelse))
                continue
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                scope.bind(node.name, _UNKNOWN)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                scope.bind(node.rest, _UNKNOWN)
            stack.extend(_children(node))
        for name in scope.outer:
            scope.bound.pop(name, None)
        return inner

    def _open(self, node: ast.AST, scope: _Scope) -> _Scope:
        if isinstance(node, ast.Lambda):
            inner = _Scope("function", scope.qualified, scope.caller, scope, [node.body], deferred=True)
            inner.owner = scope.owner
            _bind_arguments(inner, node.args, None)
            return inner
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        qualified = f"{scope.prefix()}.{node.name}"
        scope.bind(node.name, _DEFINITION, qualified)
        self.found.functions.add(qualified)
        body: list[ast.AST] = list(node.body)
        if isinstance(node, ast.ClassDef):
            self.found.bases[qualified] = []
            inner = _Scope("class", qualified, scope.caller, scope, body, qualified, scope.deferred)
            inner.extends = node.bases
            return inner
        inner = _Scope("function", qualified, qualified, scope, body, scope.owner, deferred=True)
        first = _first_argument(node, scope.owner) if scope.kind == "class" else None
        _bind_arguments(inner, node.args, first)
        return inner

    def _late_block(self, node: ast.If, scope: _Scope) -> _Scope:
        """`if TYPE_CHECKING:` and `if __name__ == "__main__":`, which an import does not run."""
        block = _Scope(scope.kind, scope.qualified, scope.caller, scope, list(node.body), scope.owner, True)
        # The block binds names of the enclosing scope.
        block.bound, block.aliases, block.outer = scope.bound, scope.aliases, scope.outer
        return block

    def _note_constructors(self, scope: _Scope) -> None:
        """Add the calls of `__init__` and `__new__` by the class; the bases may define them."""
        found, name = self.found, scope.qualified
        if found.bases.get(name) == [] and scope.parent is not None:
            paths = [self._path(base, scope.parent) for base in scope.extends]
            found.bases[name] = [path for path in paths if path is not None]
            found.calls.update((name, f"{name}.{method}") for method in ("__init__", "__new__"))

    def _note_alias(self, node: ast.Assign, scope: _Scope) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            value = node.value
            named = value.func if isinstance(value, ast.Call) else value
            if isinstance(named, (ast.Name, ast.Attribute)):
                scope.bind(target.id, _ALIAS)
                scope.aliases.setdefault(target.id, value)
            elif target.id in scope.aliases:
                scope.bind(target.id, _ALIAS)

    def _note_import(self, node: ast.Import | ast.ImportFrom, scope: _Scope) -> None:
        imports = self.found.deferred if scope.deferred else self.found.imports
        if isinstance(node, ast.Import):
            for item in node.names:
                imports.add((item.name, ""))
                if item.asname:
                    scope.bind(item.asname, _IMPORT, item.name)
                else:
                    first = item.name.partition(".")[0]
                    scope.bind(first, _IMPORT, first)
            return
        base = absolute_module(self.found.name, self.found.package, node.level, node.module)
        if base is None:
            self.found.unresolved += 1
            return
        for item in node.names:
            if item.name == "*":
                imports.add((base, ""))
                self.found.stars.append(base)
            else:
                imports.add((base, item.name))
                scope.bind(item.asname or item.name, _IMPORT, f"{base}.{item.name}")

    # -- names to paths -------------------------------------------------------------------------

    def _path(self, node: ast.expr, scope: _Scope, depth: int = 0) -> str | None:
        """Return the path of a called expression: a name, or attributes of a name."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            root = self._lookup(node.id, scope, depth)
        elif isinstance(node, ast.Call) and attributes:
            if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.owner:
                return f"super:{scope.owner}.{attributes[0]}" if len(attributes) == 1 else None
            class_ = self._path(node.func, scope, depth)
            root = f"{class_}()" if class_ is not None else None
        else:
            return None
        return ".".join([root, *reversed(attributes)]) if root is not None else None

    def _lookup(self, name: str, scope: _Scope, depth: int) -> str | None:
        for level, where in enumerate(_chain(scope)):
            if where.kind == "class" and level > 0:
                continue
            had = where.bound.get(name)
            if had is not None and name not in where.outer:
                return self._alias(name, where, depth) if had[0] == _ALIAS else had[1]
        return f"global:{self.found.name}.{name}"

    def _alias(self, name: str, scope: _Scope, depth: int = 0) -> str | None:
        value = scope.aliases[name]
        if depth > 8 or (isinstance(value, ast.Name) and value.id == name):
            return None
        if isinstance(value, ast.Call):
            class_ = self._path(value.func, scope, depth + 1)
            return f"{class_}()" if class_ is not None else None
        return self._path(value, scope, depth + 1)


def absolute_module(module: str, package: bool, level: int, named: str | None) -> str | None:
    """Return the module of `from <level dots><named> import ...` in `module`, or None."""
    if level == 0:
        return named
    parts = module.split(".")
    keep = len(parts) - level + (1 if package else 0)
    if keep <= 0:
        return None
    return ".".join([*parts[:keep], *([named] if named else [])])


def _chain(scope: _Scope | None) -> Iterator[_Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the child nodes that can hold a name or a call, in reverse order for a stack."""
    kind = type(node)
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(name for name in reversed(kind._fields) if name not in _DULL_FIELDS)
    found: list[ast.AST] = []
    for name in names:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found.extend(item for item in reversed(value) if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _outside(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a definition that run outside it: decorators, defaults, bases."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *(word.value for word in node.keywords)]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return [*decorators, *node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]


def _bind_arguments(scope: _Scope, arguments: ast.arguments, first: str | None) -> None:
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument in [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            scope.bind(argument.arg, _UNKNOWN)
    if first is not None and positional:
        scope.bind(positional[0].arg, _IMPORT, first)


def _first_argument(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str | None) -> str | None:
    """Return the path of a method's first argument: an instance, or the class itself."""
    marks = {item.id for item in node.decorator_list if isinstance(item, ast.Name)}
    if owner is None or "staticmethod" in marks:
        return None
    if "classmethod" in marks or node.name in ("__new__", "__init_subclass__", "__class_getitem__"):
        return owner
    return f"{owner}()"


def _is_late(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name):
        return test.left.id == "__name__"
    last = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return last == "TYPE_CHECKING"
