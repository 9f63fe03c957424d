"""What the page requests of a run: its circuit, numbers, rows, ticks and proofs."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter

import pytest

import dbsp
from dbsp import col
from dbsp.inspector import serve
from dbsp.inspector.row_pages import PAGE
from tests.inspector.support import FACTS, REACH, SCRIPT, Page, literals, reach_page, shown


def test_the_circuit_has_every_operator_of_the_run_once() -> None:
    with reach_page() as page:
        document = page.get("circuit")
        with page.inspector.held() as run:
            paths = list(run.lookup().paths())
        assert Counter(node["path"] for node in document["nodes"]) == Counter(paths)
        ids = {node["id"] for node in document["nodes"]}
        assert {end for edge in document["edges"] for end in (edge["source"], edge["target"])} <= ids
        assert {node["frame"] for node in document["nodes"]} <= ids | {""}
        kinds = Counter(edge["kind"] for edge in document["edges"])
        assert kinds["entering"] == 2 and kinds["delayed"] >= 1
        assert document["stages"] == ["run", "incremental", "query"]
        assert document["inputs"][1] == {
            "relation": "label",
            "kind": "set",
            "columns": [
                {"name": "x", "type": "number", "nullable": False, "editable": True},
                {"name": "text", "type": "symbol", "nullable": False, "editable": True},
            ],
        }


@pytest.mark.parametrize("stage", ["query", "incremental"])
def test_the_other_stages_of_the_query_are_shown(stage: str) -> None:
    with reach_page() as page:
        document = page.get("circuit", stage=stage)
        operators = {node["operator"] for node in document["nodes"]}
        assert "Arrange" not in operators or stage == "incremental"
        boxes = {node["id"] for node in document["nodes"]}
        assert {end for edge in document["edges"] for end in (edge["source"], edge["target"])} <= boxes


def test_a_run_without_its_query_has_one_circuit() -> None:
    circuit = dbsp.Circuit("shop")
    circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
    with serve(circuit.start()) as inspector:
        page = Page(inspector)
        assert page.get("circuit")["stages"] == ["run"]
        assert page.get("circuit", stage="query")["error"].startswith(
            "the inspector has the circuit of the run only"
        )
        assert page.get("circuit", stage="nothing")["code"] == "invalid-argument"


def test_stepping_through_the_script_equals_stepping_the_run() -> None:
    program = dbsp.compile(REACH)
    other = program.start(FACTS)
    with reach_page() as page:
        for left, tick in zip((1, 0), SCRIPT, strict=True):
            answer = page.step(kind="script")
            expected = other.step(tick.changes)
            assert answer == {"tick": other.tick, "absent": {}, "present": {}}
            for name in ("path", "size"):
                output = page.box(f"Output {name}")
                assert shown(page.get("rows", node=output)) == literals(expected[name])
                assert shown(page.get("rows", node=output, what="integral")) == literals(other.view(name))
            assert page.get("state")["script"] == {"left": left, "of": 2}
        assert page.step(kind="script")["error"] == "the change script has no more ticks [invalid-change]"


def test_a_tick_of_the_script_that_fails_stays_the_next_one() -> None:
    from dbsp.io.change_script import ScriptTick

    circuit = dbsp.Circuit("ratio")
    circuit.output("ratio", circuit.input("n", x=int).map(x=100 // col("x")))
    ticks = [ScriptTick(1, 1, {"n": {(0,): 1}}), ScriptTick(2, 2, {"n": {(5,): 1}})]
    with serve(circuit.start(), circuit, script=ticks) as inspector:
        page = Page(inspector)
        for _ in range(2):
            answer = page.step(kind="script")
            assert answer["code"] == "division-by-zero"
            assert "test_page_server.py" in answer["error"]
            state = page.get("state")
            assert (state["tick"], state["script"]["left"]) == (0, 2)


def test_numbers_of_the_operators() -> None:
    with reach_page() as page:
        page.step(kind="script")
        state = page.get("state")
        nodes = state["nodes"]
        document = page.get("circuit")
        assert set(nodes) == {node["id"] for node in document["nodes"]}
        assert nodes[page.box("Input edge")]["rows"] == 1
        assert nodes[page.box("Output path")]["rows"] == 3
        assert nodes[page.box("Input label")] | {"seconds": 0, "allSeconds": 0} == {
            "rows": 0,
            "steps": 1,
            "seconds": 0,
            "allSeconds": 0,
        }
        scope = nodes[page.box("Fixpoint path")]
        assert (scope["iterations"], scope["steps"]) == (2, 1)
        assert 0 < scope["seconds"] <= state["seconds"]
        with page.inspector.held() as run:
            kept = run.kept()
            assert (state["stateRows"], state["stateBytes"]) == (run.state_rows, run.state_bytes)
        assert sum(facts.get("bytes", 0) for facts in nodes.values()) == sum(
            size for _, size in kept.values()
        )
        page.step(kind="empty")
        later = page.get("state")["nodes"]
        assert all(
            later[id]["allSeconds"] > facts["allSeconds"]
            for id, facts in nodes.items()
            if facts["steps"] == 1
        )


def test_every_stream_and_every_tick_equals_a_recording() -> None:
    """The rows of all operators, by tick and by iteration, are those of `Run.record`."""
    program = dbsp.compile(REACH)
    other = program.start(FACTS)
    recording = other.record()
    with reach_page() as page:
        for tick in SCRIPT:
            page.step(kind="script")
            other.step(tick.changes)
        document = page.get("circuit")
        for node in document["nodes"]:
            for tick in recording.ticks:
                options = {"node": node["id"], "tick": tick}
                assert shown(page.get("rows", **options)) == literals(recording.delta(node["path"], tick))
                after = recording.integral(node["path"], tick)
                assert shown(page.get("rows", what="integral", **options)) == literals(after)
                for time, delta in recording.by_iteration(node["path"], tick).items():
                    if time:
                        assert shown(page.get("rows", iteration=time[0], **options)) == literals(delta)
        scope = page.box("Fixpoint path")
        for tick in recording.ticks:
            found = page.get("iterations", node=scope, tick=tick)["iterations"]
            assert [tuple(each["time"]) for each in found] == [
                i.time for i in recording.iterations("path", tick)
            ]
            assert [sum(facts["rows"] for facts in each["nodes"].values()) for each in found] == [
                i.rows for i in recording.iterations("path", tick)
            ]


def test_going_back_shows_the_numbers_of_a_past_tick() -> None:
    with reach_page(history=2) as page:
        page.step(kind="script")
        output = page.box("Output path")
        first = page.get("state")
        page.step(kind="edits", edits=[{"relation": "edge", "weight": 1, "cells": ["9", "9"]}])
        assert page.get("state")["nodes"][output]["rows"] == 1
        past = page.get("state", tick=2)
        assert (past["shown"], past["tick"], past["ticks"]) == (2, 3, [2, 3])
        assert past["nodes"][output]["rows"] == first["nodes"][output]["rows"] == 3
        page.step(kind="empty")
        answer = page.get("state", tick=2)
        assert answer["error"].startswith("tick 2 is not recorded; the inspector keeps the last 2 ticks")
        assert answer["code"] == "not-recorded"


def test_a_tick_with_too_many_rows_is_noted() -> None:
    with reach_page(max_rows=10) as page:
        page.step(
            kind="edits",
            edits=[{"relation": "edge", "weight": 1, "cells": [str(x), str(x + 1)]} for x in range(3, 9)],
        )
        state = page.get("state")
        assert (
            state["note"] == "The inspector does not keep the rows and times of this tick: they are too many."
        )
        assert "rows" not in state["nodes"].get(page.box("Output path"), {})
        answer = page.get("rows", node=page.box("Output path"))
        assert answer["code"] == "not-recorded"
        assert page.get("rows", node=page.box("Output path"), what="integral")["total"] == 36


def test_rows_come_in_pages_and_are_searched() -> None:
    with reach_page() as page:
        edits = [{"relation": "label", "weight": 1, "cells": [str(x), f"name {x % 7}"]} for x in range(130)]
        page.step(kind="edits", edits=edits)
        box = page.box("Input label")
        pages = [page.get("rows", node=box, what="integral", offset=offset) for offset in (0, PAGE, 2 * PAGE)]
        assert [len(each["rows"]) for each in pages] == [PAGE, PAGE, 132 - 2 * PAGE]
        assert {each["total"] for each in pages} == {132}
        rows = [(int(row["cells"][0]), row["cells"][1]) for each in pages for row in each["rows"]]
        assert rows == sorted(rows)
        found = page.get("rows", node=box, what="integral", search="NAME 6")
        assert found["matching"] == 18
        assert all(row["cells"][1] == '"name 6"' for row in found["rows"])
        assert (
            page.get("rows", node=box, what="integral", search="name", offset=PAGE)["rows"][0]["index"] > PAGE
        )
        assert page.get("rows", node=box, what="integral", offset=10**9)["rows"] == []


def test_wide_numbers_and_long_texts_are_shown_exactly() -> None:
    with reach_page() as page:
        text = 'a "b" <script>\n' + "é" * 600
        page.step(
            kind="edits", edits=[{"relation": "label", "weight": 1, "cells": ["9223372036854775807", text]}]
        )
        (row,) = page.get("rows", node=page.box("Input label"))["rows"]
        assert row["cells"][0] == "9223372036854775807"
        assert row["cells"][1].startswith('"a \\"b\\" <script>\\néé')
        assert row["cells"][1].endswith("… (620 characters)")
        with page.inspector.held() as run:
            assert (9223372036854775807, text) in run.asserted("label")


def test_edits_are_one_tick() -> None:
    with reach_page() as page:
        answer = page.step(
            kind="edits",
            edits=[
                {"relation": "edge", "weight": 1, "cells": ["3", "1"]},
                {"relation": "edge", "weight": -1, "cells": ["2", "3"]},
                {"relation": "edge", "weight": -1, "cells": ["7", "8"]},
                {"relation": "edge", "weight": 1, "cells": ["1", "2"]},
            ],
        )
        assert answer == {"tick": 2, "absent": {"edge": 1}, "present": {"edge": 1}}
        with page.inspector.held() as run:
            assert run.asserted("edge").rows() == [(1, 2), (3, 1)]


def test_an_edit_that_does_not_fit_changes_nothing() -> None:
    with reach_page() as page:
        good = {"relation": "edge", "weight": 1, "cells": ["3", "1"]}
        bad = {"relation": "edge", "weight": 1, "cells": ["3", "one"]}
        assert page.step(kind="edits", edits=[good, bad]) == {
            "error": "edited row 2 of 'edge', column 'y': expected a whole number, got 'one' [wrong-type]",
            "code": "wrong-type",
        }
        with page.inspector.held() as run:
            assert (run.tick, run.asserted("edge").rows()) == (1, [(1, 2), (2, 3)])


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '{"kind": 3}',
        '{"kind": "other"}',
        "{",
        "\xff",
        '{"kind": ["empty"]}',
        "[" * 100_000,
        " " * 1_100_000,
    ],
)
def test_a_request_that_is_not_a_tick_changes_nothing(body: str) -> None:
    with reach_page() as page:
        status, text, _ = page.request("POST", f"{page.path}api/step", body)
        assert status == 200
        assert json.loads(text)["error"] == (
            "expected the kind of a tick (empty, script, edits) in at most 1,000,000 bytes of JSON "
            "[invalid-change]"
        )
        assert page.get("state")["tick"] == 1


def test_a_query_that_does_not_fit_is_refused_in_words() -> None:
    with reach_page() as page:
        assert (
            page.get("rows", node="n99")["error"]
            == "the circuit of the run has no operator 'n99' [unknown-stream]"
        )
        assert page.get("state", tick="x")["error"] == "tick: expected a number, got 'x' [invalid-argument]"
        assert page.get("state", tick="-1")["code"] == "invalid-argument"
        assert page.get("rows", node=page.box("Input edge"), offset="9" * 19)["code"] == "invalid-argument"
        assert page.get("rows", node=page.box("Input edge"), what="other")["error"] == (
            "what: expected 'delta' or 'integral', got 'other' [invalid-argument]"
        )
        assert page.get("iterations", node=page.box("Input edge"))["error"] == (
            "expected a scope, got an operator without one [unknown-stream]"
        )
        assert page.request("GET", f"{page.path}api/step")[0] == 404
        assert page.request("GET", f"{page.path}api/other")[0] == 404


def test_proofs_of_rows_and_reasons_of_changes() -> None:
    with reach_page() as page:
        page.step(kind="script")
        output = page.box("Output path")
        rows = page.get("rows", node=output, what="integral")["rows"]
        index = next(row["index"] for row in rows if row["cells"] == ["1", "3"])
        lines = page.get("why", node=output, what="integral", index=index)["lines"]
        assert lines[0] == "path(1, 3)"
        assert lines[-1] == "└─ edge(2, 3)   input fact"
        rows = page.get("rows", node=output)["rows"]
        index = next(row["index"] for row in rows if row["cells"] == ["1", "4"])
        lines = page.get("why", node=output, what="delta", index=index)["lines"]
        assert lines[0] == "path(1, 4)   inserted in tick 2"
        assert "edge(3, 4)   input fact, inserted" in lines[-1]
        assert (
            page.get("why", node=output, index=99)["error"]
            == "'path' has no such row; read the rows again [no-matching-row]"
        )
        join = next(node["id"] for node in page.get("circuit")["nodes"] if node["operator"] == "Join")
        assert page.get("why", node=join, index=0)["error"].startswith(
            "expected a row of a relation of a Datalog program"
        )


def test_a_change_of_the_run_is_an_event() -> None:
    with reach_page() as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.inspector.port, timeout=60)
        connection.request("GET", f"{page.path}api/events")
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        version = page.get("state")["version"]
        assert response.readline() == f"data: {version}\n".encode()  # a page misses no earlier change
        page.inspector.step({"edge": [(8, 9)]})
        assert response.readline() == b"\n"
        assert response.readline() == f"data: {version + 1}\n".encode()
        connection.close()


def test_the_page_and_the_program_step_in_turns() -> None:
    with reach_page() as page:

        def steps(start: int) -> None:
            for x in range(start, start + 15):
                page.inspector.step({"edge": [(x, x + 1)]})

        threads = [threading.Thread(target=steps, args=(start,)) for start in (100, 200)]
        for thread in threads:
            thread.start()
        for x in range(15):
            page.step(kind="edits", edits=[{"relation": "edge", "weight": 1, "cells": [str(x + 300), "0"]}])
            assert "error" not in page.get("state")
            assert "error" not in page.get("rows", node=page.box("Output path"), what="integral")
        for thread in threads:
            thread.join()
        with page.inspector.held() as run:
            assert run.tick == 46
            fresh = dbsp.compile(REACH).start({"edge": run.asserted("edge"), "label": run.asserted("label")})
            assert run.view("path") == fresh.view("path")


def test_a_run_that_switches_its_circuit_stays_shown() -> None:
    text = ".decl e(x: number, y: number) .input e .decl t(x: number, y: number, z: number) .output t\n"
    text += "t(x, y, z) :- e(x, y), e(y, z), e(x, z)."
    program, other = dbsp.compile(text, "wcoj"), dbsp.compile(text, "binary")
    run = program.start({"e": [(1, 2), (2, 3)]})
    with serve(run, program) as inspector:
        page = Page(inspector)
        page.step(kind="edits", edits=[{"relation": "e", "weight": 1, "cells": ["1", "3"]}])
        before = page.get("state")
        with inspector.held():
            run.replan(other.circuit("physical"))
        assert page.get("state")["circuit"] != before["circuit"]
        page.step(kind="empty")
        state = page.get("state")
        assert set(state["nodes"]) == {node["id"] for node in page.get("circuit")["nodes"]}
        past = page.get("state", tick=2)
        assert past["note"] == "The run has switched to another circuit since this tick."
        rows = page.get("rows", node=page.box("Output t"), tick=2)
        assert shown(rows) == {("1", "2", "3"): 1}


def test_a_restarted_scope_is_noted() -> None:
    program = dbsp.compile(REACH)
    run = program.start({"edge": [(x, x + 1) for x in range(40)]})
    with serve(run, program) as inspector:
        page = Page(inspector)
        inspector.step({"edge": {(x, x + 1): -1 for x in range(1, 40)}})
        assert page.get("state")["note"].startswith("The tick evaluated 'path' from scratch;")
        assert shown(page.get("rows", node=page.box("Output path")))[("0", "2")] == -1


def test_closing_ends_the_server_and_the_recording() -> None:
    with reach_page() as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.inspector.port, timeout=60)
        connection.request("GET", f"{page.path}api/events")
        response = connection.getresponse()
        version = page.get("state")["version"]
        assert response.readline() == f"data: {version}\n".encode()
        with page.inspector.held() as run:
            assert run.observers
    assert response.read().strip() == b""  # the stream of events has ended
    assert run.observers == []
    assert repr(page.inspector) == "<inspector of '<program>': closed>"
    page.inspector.close()
    with pytest.raises(OSError):
        page.request("GET", page.path)
    run.step({"edge": [(5, 6)]})
