"""Changes of a set that are all insertions or all retractions are netted in their own memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import Circuit
from dbsp.runtime.input_changes import net_change

values = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=12)


@given(values, st.sampled_from([1, -1, 2]))
def test_equal_changes(rows: list[tuple[int, int]], weight: int) -> None:
    circuit = Circuit("set")
    circuit.output("out", circuit.input("a", x=int, y=int, kind="set"))
    port = circuit.start().input_ports["a"]
    found = []
    for owned in (True, False):
        codes = np.array(rows, np.int64)
        batch = net_change([(codes, np.full(len(rows), weight), True)], port, owned)
        assert batch is not None
        found.append((batch.rows.tolist(), batch.weights.tolist()))
        if not owned:
            assert codes.tolist() == [list(row) for row in rows]
    assert found[0] == found[1] == ([list(row) for row in sorted(set(rows))], [weight] * len(set(rows)))


@pytest.mark.parametrize("kind", ["set", "zset"])
def test_a_load_into_an_empty_relation(kind: str) -> None:
    circuit = Circuit("load")
    circuit.output("out", circuit.input("a", x=int, kind=kind))
    run = circuit.start()
    result = run.step({"a": [(3,), (1,), (3,)]})
    assert result["out"].to_dict() == {(1,): 1, (3,): 1 if kind == "set" else 2}
    assert not result.present and not result.absent
    result = run.step({"a": [(3,), (4,)]})
    assert dict(result.present) == ({"a": 1} if kind == "set" else {})
    run.step({"a": {(1,): -1, (3,): -1, (4,): -1}})
    result = run.step({"a": {(7,): -1}})
    assert dict(result.absent) == ({"a": 1} if kind == "set" else {})
