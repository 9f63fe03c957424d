"""The names that `dir` shows, and so the completion of an editor or a shell.

Circuits and streams have public methods, and methods for the compiler that other modules call.
"""

from __future__ import annotations


class PublicNames(type):
    """The class of classes whose `dir` is their tuple `public_names`."""

    public_names: tuple[str, ...] = ()

    def __dir__(cls) -> list[str]:
        return list(cls.public_names)
