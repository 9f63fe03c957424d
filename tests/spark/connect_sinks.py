"""Sinks that a process of the Spark Connect server can import."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Appended:
    """A function sink that appends its calls to a file; it fails while `failing` exists."""

    path: Path
    failing: Path | None = None

    def __call__(self, frame: Any, tick: int) -> None:
        if self.failing is not None and self.failing.exists():
            raise OSError("the disk is full")
        rows = sorted([row.x, row.y, row.weight] for row in frame.collect())
        with open(self.path, "a") as file:
            file.write(json.dumps({"tick": tick, "rows": rows, "process": os.getpid()}) + "\n")
