"""State tables: dictionaries that commit and roll back with the tick."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbsp.state.journal import Journalled
from dbsp.state.state_table import ABSENT, StateTable

KEYS = st.integers(0, 3)
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)))
TICKS = st.lists(st.tuples(CHANGES, st.booleans()))


@given(TICKS)
def test_a_tick_that_fails_leaves_no_trace(ticks: list[tuple[list[tuple[int, int | None]], bool]]) -> None:
    journal: list[Journalled] = []
    table: StateTable[int, int] = StateTable(journal)
    model: dict[int, int] = {}
    for changes, good in ticks:
        following = dict(model)
        for key, value in changes:
            if value is None:
                assert table.pop(key, None) == following.pop(key, None)
            else:
                table[key] = following[key] = value
            assert dict(table) == following
        assert len(journal) <= 1, "a table is entered once, and only if it changes"
        for state in journal:
            state.commit() if good else state.rollback()
        assert bool(journal) or following == model
        journal.clear()
        model = following if good else model
        assert dict(table) == model
        assert table.rows == len(model)
        assert table.nbytes > 0


@given(st.lists(st.tuples(CHANGES, st.sampled_from(["commit", "roll back", "capture", "captured", "all"]))))
def test_captures_have_what_the_snapshots_lack(
    ticks: list[tuple[list[tuple[int, int | None]], str]],
) -> None:
    journal: list[Journalled] = []
    table: StateTable[int, int] = StateTable(journal)
    written: dict[int, int] = {}
    waiting: dict[int, int] | None = None
    for changes, action in ticks:
        for key, value in changes:
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        for state in journal:
            state.rollback() if action == "roll back" else state.commit()
        journal.clear()
        if action in ("capture", "all"):
            whole = table.saved is None or action == "all"
            entries = table.capture_all() if action == "all" else table.capture()
            waiting = {} if whole else dict(written)
            for key, value in entries.items():
                if value is ABSENT:
                    waiting.pop(key, None)
                else:
                    waiting[key] = value
            assert waiting == dict(table)
        if action == "captured" and waiting is not None:
            table.captured(["a file"])
            written, waiting = waiting, None
