"""Random cases for every reader of dbsp: programs, fact files, change scripts, JSON circuits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import dbsp
from benchmarks.fuzz_programs import ProgramWriter, mutated
from dbsp import Circuit, CompileError, DbspError, Run, Schema, col, count, from_json
from dbsp.circuit.graph import Graph
from dbsp.data.types import Type
from dbsp.io.change_script import ChangeScriptReader, parse_change_script
from dbsp.io.facts import read_facts
from dbsp.io.json_rows import parse_json_rows

OK, REFUSED, FAILED = "ok", "refused", "failed"
MAX_ITERATIONS = 30


@dataclass(frozen=True)
class Case:
    """One input, and the function that reads it in a worker process."""

    kind: str
    seed: int

    def run(self) -> str:
        """Return "ok", "refused", or for a program that compiled and failed in a run "failed".

        Any exception besides DbspError is a defect of dbsp.
        """
        random = Random(f"{self.kind} {self.seed}")
        try:
            KINDS[self.kind](random)
        except DbspError as error:
            text = str(error)
            assert error.code is not None or getattr(error, "diagnostics", ()), f"no code: {text}"
            compiled = self.kind == "programs" and not isinstance(error, CompileError)
            return FAILED if compiled else REFUSED
        return OK


# --- programs -------------------------------------------------------------------------------------


def run_program(random: Random) -> None:
    """Compile a random program, and run it in three ticks of random rows."""
    text = ProgramWriter(random).program()
    options: dict[str, Any] = {
        "strategy": random.choice(["auto", "binary", "wcoj"]),
        "word_size": random.choice([None, 32, 64]),
        "magic": random.random() < 0.2,
        "rewrites": random.random() < 0.8,
    }
    program = dbsp.compile(text + "\n", folders=[], **options)
    program.explain()
    run = program.start(max_iterations=MAX_ITERATIONS)
    for _ in range(3):
        try:
            run.step({name: changes(random, schema) for name, schema in program.inputs.items()})
        except DbspError:
            continue  # the tick was rolled back; the run continues
    for name in run.outputs:
        run.view(name).rows()


def changes(random: Random, schema: Schema) -> dict[Any, int]:
    """Return some rows of a schema with weights."""
    rows = (tuple(value(random, type_) for type_ in schema.types) for _ in range(random.randint(0, 6)))
    return {row: random.choice([1, 1, 1, 2, -1]) for row in rows}


_VALUES: Mapping[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 3, 5, -1, 2**31 - 1, 2**63 - 1),
    "float": (0.0, -0.0, 1.5, float("nan"), float("inf"), 2.0),
    "str": ("a", "b", "", "ab", "1", "é"),
    "bool": (True, False),
}


def value(random: Random, type_: Type) -> Any:
    """Return a value of a type, seldom one of another type."""
    if random.random() < 0.01:
        return random.choice([None, "x", 1, 1.5, 10**5000, b"a", (1,), frozenset()])
    if type_.structure is not None:
        if type_.structure.name == "R":
            return (
                None
                if random.random() < 0.3
                else dbsp.Record((value_of(random, "int"), value_of(random, "str")))
            )
        if random.random() < 0.7:
            return dbsp.Branch("A", (value_of(random, "int"),))
        return dbsp.Branch("C", ())
    return value_of(random, type_.kind)


def value_of(random: Random, kind: str) -> Any:
    return random.choice(_VALUES.get(kind, _VALUES["int"]))


# --- fact files and JSON rows ---------------------------------------------------------------------

_CELLS = (
    *(
        "1",
        "-7",
        "+3",
        "0x1F",
        "0b101",
        "",
        " ",
        "1.5",
        "nan",
        "1e400",
        "a",
        '"a"',
        '"a""b"',
        '"',
        "é",
        "true",
    ),
    *(
        "9" * 19,
        "-" + "9" * 20,
        "9" * 5000,
        "[1, a]",
        "[1",
        "$A(1)",
        "$",
        "nil",
        "()",
        "\t",
        "\r",
        "\x00",
        "\ufeff",
    ),
)
_RECORD = dbsp.compile(
    ".type R = [x: number, y: symbol] .type T = A {x: number} | C {} .decl a(r: R, t: T) .input a .output a",
    folders=[],
).inputs["a"]
_SCHEMAS = (
    Schema.of(x=int),
    Schema.of(x=int, y=str),
    Schema.of(x=float, y=int, z=str),
    Schema.of(x=bool),
    Schema.of(x=str),
    Schema.of(),
    _RECORD,
)


def lines_of_cells(random: Random, delimiter: str) -> bytes:
    """Return random lines; some bytes may not be UTF-8."""
    lines = [
        delimiter.join(random.choice(_CELLS) for _ in range(random.randint(0, 4)))
        for _ in range(random.randint(0, 6))
    ]
    data = bytearray(random.choice(["\n", "\r\n", "\r"]).join(lines).encode())
    for _ in range(random.choice([0, 0, 1, 3])):
        data.insert(random.randrange(len(data) + 1), random.randrange(256))
    return bytes(data)


def run_facts(random: Random) -> None:
    """Read a random fact file or JSON file, and step a run with its rows."""
    schema = random.choice(_SCHEMAS)
    delimiter = random.choice(["\t", ",", ";", "::"])
    if random.random() < 0.3:
        facts = parse_json_rows(json_rows(random), "rows.json", schema, "a")
    else:
        columns = random.sample(range(4), schema.arity) if random.random() < 0.2 else None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.facts"
            path.write_bytes(lines_of_cells(random, delimiter))
            facts = read_facts(
                path,
                schema,
                delimiter=delimiter,
                headers=random.random() < 0.2,
                quoted=random.random() < 0.3,
                columns=columns or None,
            )
    stepped(schema, facts)


def stepped(schema: Schema, rows: Any) -> None:
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", schema=schema))
    circuit.start().step({"a": rows})


def json_rows(random: Random) -> bytes:
    cells = (1, -7, 1.5, "a", None, True, [1, "a"], {"A": [1]}, {"x": 1}, 10**30, "é", [])
    rows: list[Any] = []
    for _ in range(random.randint(0, 4)):
        row = [random.choice(cells) for _ in range(random.randint(0, 3))]
        rows.append(row if random.random() < 0.6 else dict(zip("xyz", row, strict=False)))
    text = json.dumps(rows)
    return (mutated(random, text) if random.random() < 0.4 else text).encode("utf-8", "surrogatepass")


# --- change scripts -------------------------------------------------------------------------------

_LITERALS = (
    "1",
    "-7",
    '"a"',
    '"\\n"',
    '"\\ud800"',
    '"',
    "1.5",
    "nil",
    '[1, "a"]',
    "$A(1)",
    "$C",
    "x",
    "0x1F",
    "nan",
)


def run_script(random: Random) -> None:
    """Read a random change script, and apply its ticks."""
    schema = random.choice(_SCHEMAS)
    lines = []
    for _ in range(random.randint(0, 6)):
        arguments = ", ".join(random.choice(_LITERALS) for _ in range(random.randint(0, 3)))
        line = f"{random.choice('+-')}{random.choice(['a', 'a', 'a', 'b'])}({arguments})"
        line = random.choice([line, line, line, "commit", "", "// text", "rollback"])
        lines.append(mutated(random, line) if random.random() < 0.15 else line)
    circuit = Circuit("c")
    circuit.output("out", circuit.input("a", schema=schema))
    run = circuit.start()
    for tick in parse_change_script(lines, ChangeScriptReader({"a": schema})):
        run.step(tick.changes)


# --- JSON circuits --------------------------------------------------------------------------------


@cache
def documents() -> tuple[str, ...]:
    """The circuits that are changed: of all stages, with the operators of joins and recursions."""
    circuit = Circuit("c")
    a, b = circuit.input("a", x=int, y=str), circuit.input("b", x=int, y=str)
    joined = a.filter(col("x") > 1).join(b, on=["x"]).map(x=col("x") + 1, y=col("y"))
    circuit.output("o", joined.distinct() + a.top_k(2, "x", partition=["y"]))
    circuit.output("g", b.group_by("y").agg(n=count(), most=col("x").max(), total=col("x").sum()))
    with circuit.fixpoint("f") as scope:
        variable = scope.variable("v", a.schema)
        scope.define(variable, (a + variable.join(b, on=["x"], how="semi")).distinct())
    circuit.output("r", scope.leave(variable))
    program = dbsp.compile(
        ".decl e(x: number, y: number) .input e .decl p(x: number, y: number) .output p\n"
        "p(x, y) :- e(x, y), x < 5.\np(x, z) :- p(x, y), e(y, z), !e(z, x).\n"
        ".decl t(x: number) .output t\nt(x) :- e(x, y), e(y, z), e(z, x), y != 3.\n"
        ".decl n(s: number, m: number) .output n\nn(s, m) :- e(s, _), m = max y : { e(s, y) }.",
        folders=[],
    )
    stages = ("query", "incremental", "physical", "distributed")
    texts = [source.circuit(stage).to_json() for source in (circuit, program) for stage in stages]
    return tuple(text.replace(": 100000", f": {MAX_ITERATIONS}") for text in texts)


_JSON_VALUES = (
    *(
        None,
        True,
        0,
        1,
        -1,
        2,
        7,
        10**30,
        1.5,
        "",
        "x",
        "y",
        "a",
        "int",
        "str",
        "?",
        [],
        {},
        [0],
        [[0]],
        ["x"],
    ),
    *({"column": "x"}, {"literal": 1}, {"call": "+", "arguments": []}, {"class": "Distinct", "fields": {}}),
    *(
        {"function": "os:system"},
        {"schema": [["x", "int"]]},
        {"schema": []},
        {"type": "int"},
        {"float": "nan"},
    ),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all (container, key) pairs of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def run_circuit(random: Random) -> None:
    """Read a valid circuit with one to three changed values, and run it if it is accepted.

    In half of the cases only ints change, such as numbers of columns and of nodes: few other
    changed circuits are accepted.
    """
    document = json.loads(random.choice(documents()))
    ints_only = random.random() < 0.5
    for _ in range(random.randint(1, 3)):
        # A recursion of a changed circuit may diverge, so the limit of iterations stays.
        found = [(container, key) for container, key in places(document) if key != "max_iterations"]
        if ints_only:
            found = [(container, key) for container, key in found if type(container[key]) is int]
        container, key = random.choice(found)
        choice = 1.0 if ints_only else random.random()
        if choice < 0.15:
            del container[key]
        elif choice < 0.3:
            other, name = random.choice(found)
            if name in other if isinstance(other, dict) else name < len(other):
                container[key] = json.loads(json.dumps(other[name]))
        elif type(container[key]) is int:
            container[key] += random.choice([-1, 1, 5])
        else:
            container[key] = json.loads(json.dumps(random.choice(_JSON_VALUES)))
    graph = from_json(json.dumps(document))
    run = Run(graph) if type(graph) is Graph else graph.start()  # type: ignore[attr-defined]
    for _ in range(2):
        run.step({name: changes(random, schema) for name, schema in run.inputs.items()})
    for name in run.outputs:
        run.view(name).rows()


KINDS: dict[str, Callable[[Random], None]] = {
    "programs": run_program,
    "facts": run_facts,
    "scripts": run_script,
    "circuits": run_circuit,
}
