"""Run the examples of a Markdown page as a reader would, and compare their output with the page.

    python quick_start.py README.md DIRECTORY

The examples run in DIRECTORY, in the order of the page: each `sh` block in a new bash, all `python`
blocks in one Python session. A `text` block right after an example is its expected output; times
and sizes differ between machines, so `...` in a `text` block matches any text. A block with
`no-run` in its fence (an installation, for example) is not run; `draw=NAME` in a fence adds a
picture on the site.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_MARK = "--- the output of the next block ---"


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


def run_example(
    example: Example, session: str, directory: Path
) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Run a block after the Python blocks of `session`; return the new session and the process."""
    if example.language == "sh":
        command = ["bash", "-euo", "pipefail", "-c", example.code]
    else:
        session += f"print({_MARK!r})\n{example.code}"
        command = [sys.executable, "-c", session]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return session, done


def run_page(page: Path, directory: Path) -> list[str]:
    """Run every example of the page in `directory`; return the failures, one text each."""
    failures = []
    session = ""
    for example in examples(page.read_text(encoding="utf-8")):
        session, done = run_example(example, session, directory)
        printed = done.stdout.rpartition(_MARK)[2]
        place = f"{page.name}:{example.line}"
        if done.returncode != 0:
            failures.append(f"{place}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        elif example.expected is not None and not matches(example.expected, printed):
            failures.append(f"{place}: expected\n{example.expected}\nbut it printed\n{printed}{done.stderr}")
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
