"""`dbsp inspect` in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.cli.support import REACH


def test_the_command_serves_a_page_until_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "edge.facts").write_text("1\t2\n2\t3\n")
    (tmp_path / "changes.txt").write_text("+edge(3, 4)\ncommit\n-edge(1, 2)\ncommit\n")
    command = [sys.executable, "-m", "dbsp", "inspect", "reach.dl", "-F", ".", "--deltas", "changes.txt"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("the page is ").strip()
        assert process.stdout.readline() == "Ctrl-C ends it\n"
        with urllib.request.urlopen(f"{url}api/state") as answer:
            state = json.load(answer)
        assert (state["tick"], state["script"]) == (1, {"left": 2, "of": 2})
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "\n"
    assert process.returncode == 0


def test_an_error_in_the_script_appears_at_once(tmp_path: Path) -> None:
    (tmp_path / "reach.dl").write_text(REACH)
    (tmp_path / "changes.txt").write_text("+egde(3, 4)\n")
    command = [sys.executable, "-m", "dbsp", "inspect", "reach.dl", "--deltas", "changes.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "changes.txt:1:2: error: unknown relation 'egde'" in done.stderr
