"""Check the contents of a built wheel: `python check_wheel.py dist/dbsp_circuits-*.whl`.

A wheel has one importable name, which contains every module and grammar of the repository, the
files of the inspector's page, and the marker for type checkers.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".css", ".html", ".js", ".json", ".lark", ".py", ".txt", ".typed"}


def expected_members(root: Path = ROOT) -> set[str]:
    """The expected paths in a wheel: `operators/x.py` becomes `dbsp/operators/x.py`."""
    members = set()
    for folder, place in (("dbsp", ""), ("operators", "dbsp/"), ("compiler", "dbsp/")):
        for path in (root / folder).rglob("*"):
            relative = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not relative.startswith(("dbsp/operators/", "dbsp/compiler/")):
                members.add(place + relative)
    return members


def problems(wheel: Path, root: Path = ROOT) -> list[str]:
    """Return the problems of the wheel, one line each; empty if there are none."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    tops = {PurePosixPath(name).parts[0] for name in names}
    extra_tops = sorted(top for top in tops if top != "dbsp" and not top.endswith(".dist-info"))
    found = [f"installs another top-level name than dbsp: {top}" for top in extra_tops]
    found += [f"twice in the archive: {name}" for name in sorted(set(names)) if names.count(name) > 1]
    found += [f"missing: {name}" for name in sorted(expected_members(root) - set(names))]
    metadata = {".dist-info/licenses/LICENSE", ".dist-info/entry_points.txt"}
    found += [f"missing: {end}" for end in sorted(metadata) if not any(name.endswith(end) for name in names)]
    return found


def main(arguments: list[str]) -> int:
    """Print the problems of the named wheels; return 1 if there are any."""
    failed = False
    for argument in arguments:
        found = problems(Path(argument))
        failed = failed or bool(found)
        print("\n".join(f"{argument}: {line}" for line in found) or f"{argument}: as it must be")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
