"""Random sessions of `dbsp live` against a start from scratch of the final program and facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp.cli.commands import ConsoleCommands
from tests.profiles import examples

BASE = """\
.decl edge(x: number, y: number) .input edge .output edge
.decl path(x: number, y: number) .output path
.decl mark(x: number) .output mark
.decl extra(x: number) .output extra
mark(1). mark(2).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
RULES = (
    "path(x, y) :- edge(x, y).",
    "path(x, z) :- path(x, y), edge(y, z).",
    "path(x, x) :- mark(x).",
    "path(y, x) :- edge(x, y), !mark(x).",
    "extra(x) :- path(x, x).",
    "mark(1).",
    "mark(2).",
)
WATCHED = "path(x, y), n = count : { path(x, _) }"

Facts: TypeAlias = dict[str, frozenset[tuple[int, ...]]]

values = st.integers(0, 3)
changes = st.one_of(
    st.tuples(st.just("edge"), st.tuples(values, values)),
    st.tuples(st.sampled_from(["mark", "extra"]), st.tuples(values)),
)
steps = st.one_of(
    st.tuples(st.just("commit"), st.lists(st.tuples(st.sampled_from("+-"), changes), max_size=4)),
    st.tuples(st.just("rule"), st.sampled_from(RULES)),
    st.tuples(st.just("undo"), st.none()),
)


@dataclass
class Model:
    """The rules and the facts, with those before each step."""

    rules: frozenset[str]
    facts: Facts
    past: list[tuple[frozenset[str], Facts]] = field(default_factory=list)

    def keep(self) -> None:
        self.past.append((self.rules, self.facts))

    @property
    def inputs(self) -> list[str]:
        """The inputs: `extra` has no `.input`, so it is one while it has no rule."""
        derived = {rule.partition("(")[0] for rule in self.rules if ":-" in rule}
        return [name for name in ("edge", "mark", "extra") if name not in derived]

    def change(self, sign: str, name: str, row: tuple[int, ...]) -> None:
        rows = self.facts[name]
        self.facts = {**self.facts, name: rows | {row} if sign == "+" else rows - {row}}

    def toggle(self, rule: str) -> str:
        """Add or drop a rule or a fact; return the line that does so."""
        self.keep()
        dropped = rule in self.rules
        self.rules ^= {rule}
        if ":-" not in rule:
            self.change("-" if dropped else "+", "mark", (int(rule[5]),))
        if rule.startswith("extra"):
            self.facts = {**self.facts, "extra": frozenset()}
        return f"drop {rule}" if dropped else rule


def play(commands: ConsoleCommands, model: Model, kind: str, argument: object) -> None:
    """Make a step of both."""
    match kind, argument:
        case "undo", _:
            if not model.past:
                return
            model.rules, model.facts = model.past.pop()
            commands.handle("undo")
        case "rule", str() as rule:
            if ":-" not in rule and rule not in model.rules:
                return  # a row of an input is not a rule
            commands.handle(model.toggle(rule))
        case "commit", list() as changed:
            model.keep()
            known = [(sign, change) for sign, change in changed if change[0] in model.inputs]
            for sign, (name, row) in known:
                model.change(sign, name, row)
            line = " ".join(f"{sign}{name}({', '.join(map(str, row))})" for sign, (name, row) in known)
            commands.handle(line)
            commands.handle("commit")


@settings(max_examples=examples(48))
@given(st.lists(steps, min_size=2, max_size=9))
def test_a_session_ends_as_its_final_program_with_its_final_facts(
    tmp_path_factory: pytest.TempPathFactory, taken: list[tuple[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("session")
    file = Path(folder, "p.dl")
    file.write_text(BASE)
    program = dbsp.compile(file)
    commands = ConsoleCommands(program, program.start(), timed=False)
    commands.run.step()  # the facts of the program
    commands.handle(f"watch {WATCHED}")
    written = frozenset(RULES[:2] + RULES[-2:])
    none: frozenset[tuple[int, ...]] = frozenset()
    model = Model(written, {"edge": none, "mark": frozenset({(1,), (2,)}), "extra": none, "path": none})
    for kind, argument in taken:
        play(commands, model, kind, argument)
    commands.handle(f"save {folder}/q.dl")
    saved = Path(folder, "q.dl")
    assert {rule for rule in RULES if rule in saved.read_text()} == model.rules & set(RULES)
    fresh = dbsp.compile(saved)
    other = fresh.start()
    other.step()  # the facts of the program, of which a session may have retracted some
    facts = {name: model.facts[name] for name in fresh.inputs}
    for name, rows in facts.items():
        assert commands.run.asserted(name).to_dict() == dict.fromkeys(rows, 1), name
        written_rows = set(fresh.facts.get(name, ()))
        other.step({name: dict.fromkeys(rows, 1) | dict.fromkeys(written_rows - rows, -1)})
    for name in fresh.outputs:
        assert commands.run.view(name).to_dict() == other.view(name).to_dict(), name
    assert commands.run.view("watch_1").to_dict() == fresh.query(other, WATCHED).to_dict()
