"""A home of Spark whose Pythons import PySpark as it is installed.

Spark names zip files of PySpark, which are in its home, as the first places where the Pythons that
it starts look for modules. The zip files have no bytecode, so each of these Pythons compiles what
it imports: a quarter of the processor time of the Pythons in the tests of Spark. A home without the
zip files lets them find the installed modules, which are the same and have bytecode.
"""

from __future__ import annotations

import os
from importlib.metadata import distribution
from pathlib import Path

from filelock import FileLock

_USED = ("bin", "jars")
"""The folders of a home that a Spark needs, besides its Python modules."""


def use(home: Path) -> Path:
    """Let every Spark that this process starts from now on have this home; return its jars.

    The home is created if it does not exist.
    """
    installed = Path(str(distribution("pyspark").locate_file("pyspark")))
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "home.lock"):
        for name in _USED:
            link = home / name
            if link.resolve() != (installed / name).resolve():  # missing, or of another environment
                link.unlink(missing_ok=True)
                link.symlink_to(installed / name, target_is_directory=True)
    os.environ["SPARK_HOME"] = str(home)
    return home / "jars"
