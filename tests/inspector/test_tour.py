"""The tour: every lesson is a page of its own, and its circuit shows what the text says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from dbsp.inspector.lessons import LESSONS, Lesson
from dbsp.inspector.tour import Tour

CHANGES: dict[str, dict[str, dict[tuple[Any, ...], int]]] = {
    "Changes, and a filter": {"large": {("ann", "lamp", 30): -1, ("eve", "desk", 80): 1}},
    "A join": {
        "sold": {
            ("Lyon", "lamp"): -1,
            ("Lyon", "tea"): -1,
            ("Bern", "lamp"): 1,
            ("Bern", "tea"): 1,
            ("Bern", "pen"): 1,
            ("Lyon", "desk"): 1,
        }
    },
    "Distinct": {"weights": {("tea",): -1, ("pen",): -2}, "items": {("pen",): -1}},
    "Recursion": {
        "path": {(x, y): -1 for x in range(1, 6) for y in (6, 7, 8)},
    },
    "Three relations at once": {"triangle": {(1, 2, 3): -1, (1, 5, 6): 1}},
}
"""By lesson what its last tick changes."""


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_the_ticks_of_a_lesson(lesson: Lesson) -> None:
    run = lesson.circuit().start()
    assert sum(map(len, lesson.ticks[0].changes.values())) >= 10
    for tick in lesson.ticks:
        result = run.step(tick.changes)
        assert not result.absent and not result.present
        assert any(result.values())
    last = {name: delta.to_dict() for name, delta in result.items() if delta}
    assert last == CHANGES[lesson.title]


@pytest.fixture(scope="module")
def tour() -> Iterator[Tour]:
    with Tour() as opened:
        yield opened


def state(tour: Tour, lesson: int) -> Any:
    with urllib.request.urlopen(f"{tour.url}{lesson}/api/state") as answer:
        return json.load(answer)


def test_every_lesson_is_a_page(tour: Tour) -> None:
    with urllib.request.urlopen(tour.url) as answer:
        assert answer.url == f"{tour.url}1/"
        assert b"inspector.js" in answer.read()
    for number, lesson in enumerate(LESSONS, 1):
        shown = state(tour, number)["lesson"]
        assert (shown["number"], shown["of"], shown["title"]) == (number, len(LESSONS), lesson.title)
        assert shown["paragraphs"] == list(lesson.paragraphs)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        state(tour, len(LESSONS) + 1)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(tour.url.replace(tour.url.split("/")[3], "other"))


def test_the_text_follows_the_ticks(tour: Tour) -> None:
    lesson = LESSONS[2]
    texts = [state(tour, 3)["lesson"]["next"]]
    for _ in lesson.ticks:
        request = urllib.request.Request(f"{tour.url}3/api/step", b'{"kind": "script"}', method="POST")
        with urllib.request.urlopen(request) as answer:
            assert "tick" in json.load(answer)
        texts.append(state(tour, 3)["lesson"]["next"])
    assert texts == [*(tick.text for tick in lesson.ticks), lesson.end]
    assert state(tour, 4)["tick"] == 0, "each lesson has a run of its own"


def test_the_command() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "dbsp", "tour"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("the page is ").strip()
        assert process.stdout.readline() == "Ctrl-C ends it\n"
        with urllib.request.urlopen(f"{url}5/api/circuit") as answer:
            assert json.load(answer)["name"] == "triangles"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "\n"
    assert process.returncode == 0
