"""The dealing of changes to shards in other processes."""

from __future__ import annotations

from dbsp import Circuit
from dbsp.shards.sharded_run import ShardedRun


def test_a_retraction_by_key_has_no_other_values() -> None:
    circuit = Circuit("people")
    people = circuit.input("person", id=int, name=str, tags=list[str], key=["id"])
    circuit.output("out", people)
    with ShardedRun(circuit.circuit("distributed"), 2) as run:
        person = run.input("person")
        person.delete([(1,)])  # no value has an id yet
        result = run.step()
        assert (result["out"].to_dict(), result.absent) == ({}, {"person": 1})
        ann, bob = (1, "Ann", ("a",)), (2, "Bob", ())
        person.insert([ann, bob])
        assert run.step()["out"].to_dict() == {ann: 1, bob: 1}
        person.delete([(1,), (7,)])
        result = run.step()
        assert (result["out"].to_dict(), result.absent) == ({ann: -1}, {"person": 1})
        # Both retract the same key; the change has no order.
        result = run.step({"person": {(2, "x", ()): -1, (2, "y", ()): -1}})
        assert result["out"].to_dict() == {bob: -1}
