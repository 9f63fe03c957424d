"""Starting an inspector: its arguments, its port, and the packages that it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dbsp
from dbsp.inspector import serve
from tests.inspector.support import REACH, Page


@pytest.fixture
def run() -> dbsp.Run:
    return dbsp.compile(REACH).start()


def test_a_missing_package_names_the_extra(run: dbsp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(dbsp.SetupError, match=r"run 'pip install dbsp-circuits\[inspect\]'"):
        serve(run)
    assert run.observers == []


def test_the_command_line_does_not_import_the_server() -> None:
    code = (
        "import sys, dbsp.cli.app; print([m for m in ('starlette', 'uvicorn', 'anyio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_port_in_use_is_refused(run: dbsp.Run) -> None:
    with serve(run) as inspector:
        message = f"the inspector cannot listen on port {inspector.port}: .* choose another port, or 0"
        with pytest.raises(dbsp.DbspError, match=message) as caught:
            serve(dbsp.compile(REACH).start(), port=inspector.port)
    assert caught.value.code == "port-not-available"


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_out_of_range_is_refused(run: dbsp.Run, port: int) -> None:
    with pytest.raises(dbsp.DbspError, match="cannot listen on port"):
        serve(run, port=port)
    assert run.observers == []


def test_a_run_in_other_processes_is_refused() -> None:
    with pytest.raises(dbsp.ArgumentError, match="run: expected a run in this process, got <program"):
        serve(dbsp.compile(REACH))  # type: ignore[arg-type]


def test_the_history_is_a_number_of_ticks(run: dbsp.Run) -> None:
    with pytest.raises(dbsp.ArgumentError, match="history: expected a number of 1 or more, got 0"):
        serve(run, history=0)


def test_the_port_is_a_number(run: dbsp.Run) -> None:
    with pytest.raises(dbsp.ArgumentError, match=r"port: expected a number, or 0 for a free port, got 80\.0"):
        serve(run, port=80.0)  # type: ignore[arg-type]


def test_steps_of_the_caller_raise_their_errors(run: dbsp.Run) -> None:
    with serve(run) as inspector:
        with pytest.raises(dbsp.InputError, match="unknown input 'egde'"):
            inspector.step({"egde": [(1, 2)]})
        assert inspector.step({"edge": [(1, 2)]})["path"].rows() == [(1, 2)]
        assert Page(inspector).get("state")["tick"] == 1
        assert repr(inspector) == "<inspector of '<program>': open>"


def test_values_of_every_type_are_shown() -> None:
    import datetime as dt
    from decimal import Decimal

    circuit = dbsp.Circuit("types")
    schema = {"a": "decimal(18, 2)", "b": "list[int]", "c": "date?", "d": "object", "e": "bytes"}
    circuit.output("all", circuit.input("row", schema=schema))
    run = circuit.start()
    with serve(run) as inspector:
        inspector.step(
            {
                "row": [
                    (Decimal("1.50"), (1, 2), None, frozenset({1}), b"\xff"),
                    (Decimal(2), (), dt.date(2026, 1, 2), (), b""),
                ]
            }
        )
        page = Page(inspector)
        rows = page.get("rows", node=page.box("Input row"))["rows"]
        assert [row["cells"][2] for row in rows] == ["nil", '"2026-01-02"']
        columns = page.get("circuit")["inputs"][0]["columns"]
        assert [column["editable"] for column in columns] == [False, False, True, False, False]
        edit = {"relation": "row", "weight": 1, "cells": ["1", "2", None, "3", "4"]}
        assert page.step(kind="edits", edits=[edit])["error"] == (
            "edited row 1 of 'row', column 'a': a value of type decimal(18, 2) cannot be written in the "
            "page; insert the row with run.step [wrong-type]"
        )
