"""The announcement of a compilation."""

from __future__ import annotations

import pytest

from dbsp.kernels import kernel_cache
from dbsp.kernels.kernel_cache import shown_progress


def test_a_compilation_is_announced_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DBSP_QUIET", raising=False)
    monkeypatch.setattr(kernel_cache, "_cores", lambda: 2)
    with shown_progress(7) as done:
        done("consolidate")
    line = "dbsp: compiling 7 kernels for this machine on 2 cores; this happens once"
    assert capsys.readouterr().err == f"{line} ('dbsp warmup' does it in advance)\n"


def test_a_quiet_process_announces_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBSP_QUIET", "1")
    with shown_progress(7) as done:
        done("consolidate")
    assert capsys.readouterr().err == ""
