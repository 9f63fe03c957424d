"""A disk that forgets what was not synchronized when it loses power."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

Node = tuple[int, int]


class Disk:
    """Notes what `os.fsync` has made durable below a folder: contents, and the names in folders."""

    def __init__(self, monkeypatch: Any, root: Path) -> None:
        self._root = root
        self._files: dict[Node, bytes] = {}
        self._folders: dict[Node, dict[str, Node]] = {}
        self._opened: dict[Node, int] = {}
        """Descriptors, so that a new file is not taken for one that was removed."""
        self.calls = 0
        monkeypatch.setattr(os, "fsync", self._fsync)

    def close(self) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)

    def _fsync(self, descriptor: int) -> None:
        self.calls += 1
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if self._root in path.parents:
            self._note(path)

    def _note(self, path: Path) -> None:
        if path.is_dir():
            self._folders[self._node(path)] = {entry.name: self._node(entry) for entry in path.iterdir()}
        else:
            self._files[self._node(path)] = path.read_bytes()

    def _node(self, path: Path) -> Node:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        found = os.fstat(descriptor)
        assert stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode), f"{path} is a link"
        if self._opened.setdefault((found.st_dev, found.st_ino), descriptor) != descriptor:
            os.close(descriptor)
        return found.st_dev, found.st_ino

    def lose_power(self, folder: Path, into: Path) -> None:
        """Write what a folder has afterwards into a new folder."""
        self._restore(self._node(folder), into)

    def _restore(self, node: Node, into: Path) -> None:
        if stat.S_ISDIR(os.fstat(self._opened[node]).st_mode):
            into.mkdir()
            for name, inner in self._folders.get(node, {}).items():
                self._restore(inner, into / name)
        else:
            into.write_bytes(self._files.get(node, b""))  # the name is durable, the content is not
        self._note(into)
