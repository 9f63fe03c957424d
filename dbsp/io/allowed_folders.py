"""The folders whose files a program may use, as `folders=` and `--folder` give them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dbsp.errors import InputError
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """Some folders with all that is in them; None stands for every file of the system."""

    folders: tuple[Path, ...] | None = None

    @classmethod
    def of(cls, folders: Iterable[str | Path] | None) -> AllowedFolders:
        return cls(None if folders is None else tuple(map(Path, folders)))

    def allow(self, path: Path) -> bool:
        """Return whether a file is in one of the folders, after `..` and symbolic links."""
        if self.folders is None:
            return True
        try:
            real = path.resolve()
            return any(real.is_relative_to(folder.resolve()) for folder in self.folders)
        except (OSError, RuntimeError, ValueError):  # a loop of symbolic links, a NUL character
            return False

    def check(self, path: Path | None, directive: str) -> None:
        """Raise InputError unless the directive's file is allowed; None is a standard stream."""
        if path is not None and not self.allow(path):
            raise InputError(
                f"{directive} uses a file outside the folders of --folder; allow its folder by another "
                "--folder",
                where=str(path),
                code="outside-folders",
            )


ALL_FOLDERS = AllowedFolders()
