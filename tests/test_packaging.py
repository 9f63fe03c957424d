"""The distribution: its contents, its names, and the examples of its documentation."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dbsp
from tests.check_wheel import expected_members, problems
from tests.forked_commands import ForkedCommands
from tests.quick_start import examples, matches, run_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built without fetching anything."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_contains_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("dbsp_circuits-*.whl")
    assert problems(wheel) == []
    members = expected_members()
    assert {
        "dbsp/py.typed",
        "dbsp/kernels/matches.py",
        "dbsp/operators/joins/join.py",
        "dbsp/cli/app.py",
    } <= members
    assert any(name.startswith("dbsp/compiler/") and name.endswith(".lark") for name in members)


def test_the_source_distribution_makes_a_wheel_that_runs(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("dbsp_circuits-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert not (source / "tests").exists()  # they run in a checkout only
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path / "dist"),
    ]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert problems(wheel) == []
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = (
        "import dbsp, dbsp.spark; print(dbsp.__file__);"
        "print(dbsp.compile('.decl r(x: number) .output r r(1).').start().view('r').rows())"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{installed / 'dbsp' / '__init__.py'}\n[(1,)]\n"


def test_a_wheel_with_missing_or_extra_files_is_detected(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dbsp/__init__.py", "")
        archive.writestr("operators/joins/join.py", "")
    found = problems(wheel)
    assert "installs another top-level name than dbsp: operators" in found
    assert "missing: dbsp/operators/joins/join.py" in found


def test_version() -> None:
    assert metadata.version("dbsp-circuits") == dbsp.__version__
    assert f"## [{dbsp.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_pyspark_is_not_needed() -> None:
    names = [re.split(r"[^\w-]", line)[0] for line in PROJECT["project"]["dependencies"]]
    assert "pyspark" not in names
    assert "pandas" not in names


@pytest.mark.parametrize("name", ["operators", "compiler"])
def test_the_inner_packages_refuse_other_names(name: str) -> None:
    importlib.import_module(f"dbsp.{name}")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 1
    assert f"this package is imported as 'dbsp.{name}', not as '{name}'" in done.stderr


def test_an_unpacked_source_distribution_says_what_to_do(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "operators", "compiler")
    shutil.copytree(ROOT / "dbsp", tmp_path / "dbsp", symlinks=True, ignore=ignored)
    command = [sys.executable, "-c", "import dbsp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ImportError: dbsp/operators is missing" in done.stderr
    assert "pip install ." in done.stderr


def test_a_clone_without_symbolic_links_says_what_to_do(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    for folder in ("dbsp", "operators", "compiler"):
        shutil.copytree(
            ROOT / folder, origin / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )

    def run(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=check)

    run(origin, "git", "init")
    run(origin, "git", "add", ".")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    run(origin, "git", *author, "commit", "-m", "all")
    run(tmp_path, "git", "clone", "-c", "core.symlinks=false", "origin", "clone")
    for code in (
        "import dbsp",
        "from dbsp import compile",
        "import dbsp.operators.joins.join",
        "import dbsp.cli",
    ):
        done = run(clone, sys.executable, "-c", code, check=False)
        assert "ImportError: dbsp/operators is a file instead of a link to ../operators" in done.stderr
    commands = [line.split() for line in done.stderr.splitlines() if line.startswith("    git ")]
    assert len(commands) == 2
    for command in commands:
        run(clone, *command)
    done = run(clone, sys.executable, "-c", "import dbsp; print(dbsp.compile, dbsp.__file__)")
    assert f"{clone}/dbsp/__init__.py" in done.stdout


def test_a_package_can_be_the_first_import() -> None:
    for code in (
        "import sys; from dbsp import kernels; print('dbsp.expressions' in sys.modules)",
        "import dbsp.parallel.range_sort; print(False)",
    ):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "False\n"


def test_importing_the_package_loads_no_heavy_module() -> None:
    code = "import sys, dbsp; print([m for m in ('numba', 'pyarrow', 'typer', 'lark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_help_of_the_command_line_loads_no_engine() -> None:
    code = (
        "import sys, dbsp.cli.app; "
        "print([m for m in ('numpy', 'dbsp.circuit.graph', 'dbsp.compiler.compile') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def runs_spark(page: Path) -> bool:
    return any("spark" in example.code for example in examples(page.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def forked_commands() -> Iterator[Path]:
    """A folder with commands that start in a fork."""
    with ForkedCommands() as commands:
        yield commands.folder


# tests/spark/test_scripts.py runs those that use Spark.
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not runs_spark(page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_the_documentation_run_as_shown(
    page: Path, tmp_path: Path, forked_commands: Path
) -> None:
    assert run_page(page, tmp_path, commands=forked_commands) == []


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_have_a_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("index", ["README.md", "docs/README.md"])
def test_the_indexes_list_every_page(index: str) -> None:
    page = ROOT / index
    linked = {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())}
    groups = ("api", "errors", "decisions")  # each has an index of its own
    pages = [path for path in PAGES[1:] if path.parent.name not in groups or path.name == "index.md"]
    assert [str(path.relative_to(ROOT)) for path in pages if path not in linked and path != page] == []


def test_every_dependency_is_pinned_within_its_range() -> None:
    """A dependency is added with `make lock`."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    split = (line.split("==") for line in lines if not line.startswith("#"))
    pins = {canonicalize_name(name): version for name, version in split}
    project = PROJECT["project"]
    named = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    for requirement in map(Requirement, named):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_contributing_names_tests_that_exist() -> None:
    table = re.findall(r"tests/[\w/*.]+", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(table) > 10
    assert [path for path in table if not [*ROOT.glob(path)]] == []


def test_the_readme_has_the_examples_that_ci_runs() -> None:
    languages = [example.language for example in examples((ROOT / "README.md").read_text())]
    assert languages == ["python", "sh", "python", "python"]


def test_how_examples_are_read() -> None:
    page = "```sh\nls\n```\n\nshows\n\n```text\na ... b\n```\n```sh no-run\nrm\n```\n## x\n```text\ny\n```\n"
    (only,) = examples(page)
    assert (only.language, only.code, only.line, only.expected) == ("sh", "ls\n", 1, "a ... b\n")
    assert matches("a ... b\n", "a 1.5\n c b  \n")
    assert not matches("a ... b\n", "a b c\n")


def test_an_example_with_another_output_is_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\necho one\n```\n```text\ntwo\n```\n```python\nx = 1\n```\n```python\nprint(x)\n1 / 0\n```\n"
    )
    shown, failed = run_page(page, tmp_path)
    assert shown.startswith("page.md:1: expected\ntwo")
    assert failed.startswith("page.md:10: the block fails\n1\n")
