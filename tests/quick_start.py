"""Run the examples of a Markdown page as a reader would, and compare their output with the page.

    python quick_start.py README.md DIRECTORY

The examples run in DIRECTORY, in the order of the page: each `sh` block in a new bash, all `python`
blocks in one Python session. A `text` block right after an example is its expected output; times
and sizes differ between machines, so `...` in a `text` block matches any text. A block with
`no-run` in its fence (an installation, for example) is not run; `draw=NAME` in a fence adds a
picture on the site.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
PYTHON = "forked-python"
"""The command that runs Python code in a folder of `tests.forked_commands`: as `python -c`."""

_MARK = "--- the end of a block ---"
# Runs the blocks that it reads, one line each, and marks the end of their output. With a directory
# begins another script there: a new module, in which functions can be pickled as in any script.
_DRIVER = """
import ast, os, sys, traceback, types
mark = sys.argv[1]
blocks = os.fdopen(os.dup(0))
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for line in blocks:
    directory, block = ast.literal_eval(line)
    error = ""
    try:
        if directory:
            os.chdir(directory)
            sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(block, "example.py", "exec"), vars(sys.modules["__main__"]))
    except BaseException:
        error = traceback.format_exc()
    print("\\n" + mark, repr(error), flush=True)
"""


@dataclass(frozen=True)
class Example:
    """A block to run, its line in the page, and its expected output (None: any).

    `draw` names the circuit that the site shows below the block; `docs/site/page_examples.py` draws
    the circuit.
    """

    language: str
    code: str
    line: int
    expected: str | None
    draw: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What a block did: whether it ended without an error, and its two outputs."""

    succeeded: bool
    printed: str
    errors: str


def examples(page: str) -> Iterator[Example]:
    """Yield the runnable blocks of a page, in order, each with the output shown below it."""
    blocks = list(FENCE.finditer(page))
    for number, block in enumerate(blocks):
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        info = block["info"].split()
        if not info or info[0] not in ("sh", "python") or "no-run" in info:
            continue
        expected = None
        if following is not None and following["info"].strip() == "text":
            between = page[block.end() : following.start()]
            # Prose between the two may introduce the output; a heading starts another section.
            if not re.search(r"^#", between, re.MULTILINE):
                expected = following["body"]
        draw = next((word.removeprefix("draw=") for word in info if word.startswith("draw=")), None)
        yield Example(info[0], block["body"], page.count("\n", 0, block.start()) + 1, expected, draw)


def matches(expected: str, printed: str) -> bool:
    """Whether the output is as shown; `...` matches any text, spaces at line ends are ignored."""

    def tidy(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    pattern = ".*?".join(re.escape(part) for part in tidy(expected).split("..."))
    return re.fullmatch(pattern, tidy(printed), re.DOTALL) is not None


def _environment(commands: Path | None) -> dict[str, str]:
    """Return the variables of the programs: they find the commands of this environment first, or
    those in a folder."""
    folders = [str(folder) for folder in (commands, Path(sys.executable).parent) if folder is not None]
    return {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}


class Python:
    """A Python process that runs blocks of one script, and then of others."""

    def __init__(self, commands: Path | None = None) -> None:
        python = sys.executable if commands is None else str(commands / PYTHON)
        self._process = subprocess.Popen(
            [python, "-c", _DRIVER, _MARK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(commands),
        )
        self._lines = 0

    def begin(self, directory: Path) -> None:
        """Begin a script, in a directory and with no names of the one before."""
        self._lines = 0
        done = self._run(str(directory), "")
        if not done.succeeded:
            raise RuntimeError(done.errors)

    def run(self, code: str) -> Outcome:
        """Run a block of the script after those before it."""
        # Empty lines in place of the blocks before, so that line numbers count through the page.
        done = self._run("", "\n" * self._lines + code)
        self._lines += code.count("\n")
        return done

    def end(self) -> None:
        """Wait for the end of the process."""
        self._process.communicate()

    def _run(self, directory: str, code: str) -> Outcome:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(repr((directory, code)) + "\n")
        stdin.flush()
        printed = []
        for line in stdout:
            if line.startswith(_MARK):
                error = ast.literal_eval(line.removeprefix(_MARK).strip())
                return Outcome(not error, "".join(printed), error)
            printed.append(line)
        return Outcome(False, "".join(printed), "the Python process ended")


class Session:
    """The programs of a page: a bash for each `sh` block, one Python for all `python` blocks.

    The pages that take one process of the caller share what a start takes, such as a Java. With a
    folder of `commands` (see `tests.forked_commands`), the programs start from there.
    """

    def __init__(self, directory: Path, shared: Python | None = None, commands: Path | None = None) -> None:
        self._directory = directory
        self._commands = commands
        self._shared = shared
        self._python: Python | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._python is not None and self._python is not self._shared:
            self._python.end()

    def run(self, example: Example) -> Outcome:
        """Run a block after those before it."""
        if example.language == "sh":
            command = ["bash", "-euo", "pipefail", "-c", example.code]
            done = subprocess.run(
                command,
                cwd=self._directory,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                env=_environment(self._commands),
            )
            return Outcome(done.returncode == 0, done.stdout, done.stderr)
        if self._python is None:
            self._python = self._shared or Python(self._commands)
            self._python.begin(self._directory)
        return self._python.run(example.code)


def run_page(
    page: Path, directory: Path, shared: Python | None = None, commands: Path | None = None
) -> list[str]:
    """Run every example of the page in `directory`; return the failures, one text each."""
    failures = []
    with Session(directory, shared, commands) as session:
        for example in examples(page.read_text(encoding="utf-8")):
            done = session.run(example)
            place = f"{page.name}:{example.line}"
            if not done.succeeded:
                failures.append(f"{place}: the block fails\n{done.printed}{done.errors}")
            elif example.expected is not None and not matches(example.expected, done.printed):
                failures.append(
                    f"{place}: expected\n{example.expected}\nbut it printed\n{done.printed}{done.errors}"
                )
            else:
                print(f"{place}: {example.language} block ran as shown", flush=True)
    return failures


def main(arguments: list[str]) -> int:
    """Run a page in a directory; return 1 if an example fails or the page has none."""
    page, directory = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    if not list(examples(page.read_text(encoding="utf-8"))):
        print(f"{page.name}: no example to run", file=sys.stderr)
        return 1
    failures = run_page(page, directory)
    print("\n".join(failures), file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
