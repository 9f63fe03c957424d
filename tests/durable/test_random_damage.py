"""Random damages of every kind of durable folder: a sample of `python -m benchmarks damage`."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from unittest import mock

from benchmarks.damage import SPECIMENS, Specimen, measure_damages


def test_random_damages_of_every_kind_of_folder(tmp_path: Path) -> None:
    found = measure_damages(150, tmp_path, seed=13)
    assert found.problems == []
    outcomes = Counter(outcome for _, _, outcome in found.outcomes.elements())
    assert outcomes["refused"] > 30
    assert outcomes["right rows"] > 30
    assert {name for name, _, _ in found.outcomes} == {specimen.name for specimen in SPECIMENS}


def test_the_campaign_notices_defects(tmp_path: Path) -> None:
    """Each of the outcomes that are defects is recognized, here without any checksum."""
    specimens = (
        Specimen("other rows", _write_one, lambda folder: (folder / "one").read_text(errors="replace")),
        Specimen("traceback", _write_one, lambda folder: str(json.loads((folder / "one").read_bytes()))),
        Specimen("death", _write_one, lambda folder: os._exit(3) if _read(folder) != b'"one"' else ""),
    )
    for specimen in specimens:
        with mock.patch("benchmarks.damage.SPECIMENS", (specimen,)):
            found = measure_damages(12, tmp_path / specimen.name, seed=1)
        assert specimen.name in {outcome for _, _, outcome in found.outcomes}
        assert found.problems


def _write_one(folder: Path, chance: object) -> None:
    folder.mkdir(parents=True)
    (folder / "one").write_text('"one"')


def _read(folder: Path) -> bytes:
    path = folder / "one"
    return path.read_bytes() if path.exists() else b""
