"""The update of a shard in its checkpoint: what the folder has after it was withdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbsp.durable.manifest import CURRENT, PREVIOUS, read_manifest
from dbsp.runtime.program_update import ProposedUpdate
from dbsp.shards.common_decision import WithdrawnError
from tests.shards.durable_shards import DurableShards, changes_of, distributed_words, expected


def test_a_withdrawn_update_leaves_the_common_snapshot_only(tmp_path: Path) -> None:
    """One shard has a later snapshot than the others, and the update has replaced it."""
    graph = distributed_words()
    shards = DurableShards(graph, 2, tmp_path, snapshot_every=1000)
    for tick in (1, 2):
        shards.step(changes_of(tick))
    shards.snapshot()
    shards.step(changes_of(3))
    store, run = shards.stores[0], shards.runs[0]
    store.snapshot_now(2)
    assert store.status().snapshot == 3
    before = shards.views()
    store.order_snapshot(2)
    with pytest.raises(WithdrawnError):
        run.switch_program(ProposedUpdate(graph, "another program", {}, None, {}, lambda: None), lambda: None)
    assert store.status().snapshot == 2, "it counts a snapshot that the folder has not"
    for file in (CURRENT, PREVIOUS):
        found = read_manifest(store.folder / file)
        assert found is not None
        assert (found.tick, found.query) == (2, store.identity)
    assert shards.views() == before
    shards.step(changes_of(4))
    shards.snapshot()
    shards.step(changes_of(5))
    shards.close()
    again = DurableShards(graph, 2, tmp_path)
    assert again.views() == expected(5)[-1]
    assert again.folder.plan.common == 4
    again.close()
