"""Programs with facts and expected output, loaded at once, row by row, and under deletions.

`tests/programs/NAME.dl` has its facts in `NAME/relation.facts` and the expected rows of each output
in `NAME/relation.csv`, tab-separated; some have a change script `NAME/changes.txt` and the expected
deltas of its ticks in `NAME/deltas.txt`. Expected rows were computed by an independent evaluator,
which shares only the checks with the compiler, and reviewed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import dbsp
from dbsp.cli import main
from dbsp.compiler.datalog.meaning.checked import Relation
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind, type_of
from dbsp.io.change_script import read_change_script
from dbsp.io.term_text import read_cell

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.dl"))
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = dict[str, set[Row]]

READ = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float, Kind.SYMBOL: str}

SCRIPTS = [path for path in PROGRAMS if (path.with_suffix("") / "changes.txt").exists()]

every_program = pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)


def read(path: Path, relation: Relation) -> set[Row]:
    if not relation.attributes:
        return {()} if path.read_text() else set()
    return {
        tuple(value(attribute.kind, text) for attribute, text in zip(relation.attributes, line, strict=True))
        for line in (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    }


def value(kind: AnyKind, text: str) -> Any:
    return READ[kind](text) if isinstance(kind, Kind) else read_cell(type_of(kind), text)


def facts_of(path: Path, program: dbsp.Program) -> Rows:
    """Return the rows of the fact files, by input."""
    return {
        name: read(path.with_suffix("") / f"{name}.facts", program.relations[name])
        for name in program.inputs
        if program.relations[name].inputs
    }


def views(run: dbsp.Run, program: dbsp.Program) -> Rows:
    found = {name: run.view(name).to_dict() for name in program.outputs}
    assert all(weight == 1 for view in found.values() for weight in view.values())
    return {name: set(view) for name, view in found.items()}


def expected(path: Path, program: dbsp.Program) -> Rows:
    folder = path.with_suffix("")
    return {name: read(folder / f"{name}.csv", program.relations[name]) for name in program.outputs}


@every_program
def test_loaded_at_once(path: Path) -> None:
    program = dbsp.compile(path)
    assert program.warnings == ()
    run = program.start(initial=facts_of(path, program))
    assert run.tick == 1
    assert views(run, program) == expected(path, program)


@every_program
def test_loaded_row_by_row_in_any_order(path: Path) -> None:
    program = dbsp.compile(path)
    run = program.start()
    before = views(run, program)
    changes = [
        (name, row)
        for name, rows in sorted(facts_of(path, program).items())
        for row in sorted(rows, key=repr)
    ]
    random.Random(path.stem).shuffle(changes)
    for name, row in changes:
        result = run.step({name: {row: 1}})
        after = views(run, program)
        for output, delta in result.items():
            assert delta.to_dict() == difference(before[output], after[output])
        before = after
    assert before == expected(path, program)


def difference(before: set[Row], after: set[Row]) -> dict[Row, int]:
    return dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1)


def churn(rows: Rows, seed: str) -> Iterator[dict[str, dict[Row, int]]]:
    """Return changes that delete a random half of the rows in a few ticks and insert it again."""
    generator = random.Random(seed)
    gone = [(name, row) for name in sorted(rows) for row in sorted(rows[name], key=repr)]
    generator.shuffle(gone)
    gone = gone[: len(gone) // 2 + 1]
    for weight in (-1, 1):
        generator.shuffle(gone)
        left = list(gone)
        while left:
            now = [left.pop() for _ in range(min(len(left), generator.randint(1, 4)))]
            yield {
                name: {row: weight for other, row in now if other == name}
                for name in {name for name, _ in now}
            }


@every_program
def test_views_after_every_tick_of_churn_equal_those_of_a_fresh_run(path: Path) -> None:
    program = dbsp.compile(path)
    rows = {name: set[Row]() for name in program.inputs} | facts_of(path, program)
    written = {name: set(facts) for name, facts in program.facts.items()}
    for name, facts in written.items():
        rows[name] |= facts
    run = program.start(initial=rows)
    before = views(run, program)
    for changes in churn(rows, path.stem):
        result = run.step(changes)
        for name, change in changes.items():
            rows[name] = {row for row in rows[name] if row not in change} | {
                row for row, weight in change.items() if weight > 0
            }
        after = views(run, program)
        # A retracted fact of the program must be retracted in the fresh run, too.
        initial = {
            name: dict.fromkeys(present, 1) | dict.fromkeys(written.get(name, set()) - present, -1)
            for name, present in rows.items()
        }
        assert after == views(program.start(initial=initial), program)
        for output, delta in result.items():
            assert delta.to_dict() == difference(before[output], after[output])
        before = after
    assert before == expected(path, program)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_change_script_has_its_deltas_and_the_views_of_a_fresh_run(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = path.with_suffix("")
    script = folder / "changes.txt"
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(path), "-F", str(folder), "-D", str(tmp_path), "--deltas", str(script)])
    assert (tmp_path / "deltas.txt").read_text() == (folder / "deltas.txt").read_text()
    program = dbsp.compile(path)
    rows = facts_of(path, program)
    for tick in read_change_script(script, program.inputs):
        for name, change in tick.changes.items():
            for row, weight in change.items():
                (rows[name].add if weight > 0 else rows[name].discard)(row)
    fresh = views(program.start(initial=rows), program)
    sizes = "".join(f"{name}\t{len(fresh[name])}\n" for name in program.sizes)
    assert capsys.readouterr().out == sizes
    for name in program.checked.outputs:
        assert read(tmp_path / f"{name}.csv", program.relations[name]) == fresh[name]
