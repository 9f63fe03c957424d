"""Show the parameters of dataclasses in the reference.

The reader of the source knows `dataclasses.dataclass` only. `dbsp.lazy_dataclass.dataclass` has the
same meaning, so this extension replaces it before the signatures are made.
"""

from __future__ import annotations

import griffe

OURS = "dbsp.lazy_dataclass.dataclass"


class DocumentedDataclasses(griffe.Extension):
    """Lets each module import the decorator of the standard library."""

    def on_module_members(self, *, mod: griffe.Module, **_: object) -> None:
        decorator = mod.members.get("dataclass")
        if isinstance(decorator, griffe.Alias) and decorator.target_path == OURS:
            decorator.target_path = "dataclasses.dataclass"
