"""Pictures laid out by Graphviz, and pictures in files.

Graphviz is the `dot` program if there is one, else the copy in the package `pygraphviz`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from os import PathLike
from pathlib import Path

from dbsp.circuit.pictures.dot_form import dot_text
from dbsp.circuit.pictures.mermaid_form import mermaid_text
from dbsp.circuit.pictures.picture import PictureData
from dbsp.errors import ArgumentError, DbspError, SetupError, wrong_argument

DOT_SUFFIXES = (".dot", ".gv")
MERMAID_SUFFIXES = (".mmd", ".mermaid")
LAID_OUT_SUFFIXES = (".svg", ".png", ".pdf")
SUFFIXES = (*DOT_SUFFIXES, *MERMAID_SUFFIXES, *LAID_OUT_SUFFIXES, ".json")

# The layout runs in a separate process: it is C code, and its messages on stderr, such as warnings
# about fonts, matter only if it fails.
_LAYOUT = """
import sys
import pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


def render(dot: str, format: str = "svg") -> bytes:
    """Lay out DOT text as a picture: `svg`, `png` or `pdf`.

    Raises SetupError if Graphviz is not installed, and DbspError if it fails.
    """
    program = shutil.which("dot")
    command = [program, f"-T{format}"] if program else [sys.executable, "-c", _LAYOUT, format]
    if program is None:
        try:
            import pygraphviz  # noqa: F401  (only a test whether it loads)
        except ImportError:
            raise SetupError(
                "a picture needs Graphviz, which is not installed: run 'pip install dbsp-circuits[draw]', "
                "'apt install graphviz' or 'brew install graphviz'. DOT output works without it"
            ) from None
    done = subprocess.run(command, input=dot.encode(), capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        message = done.stderr.decode(errors="replace").strip()
        last = message.splitlines()[-1] if message else f"exit code {done.returncode}"
        raise DbspError(
            f"Graphviz could not lay out the circuit as {format}: {last}. Write DOT instead, to a file "
            "that ends in .dot",
            code="drawing-failed",
        )
    return done.stdout


def json_text(picture: PictureData) -> str:
    """Return a picture as JSON."""
    return json.dumps(picture.to_dict(), ensure_ascii=False, indent=1) + "\n"


def save(picture: PictureData, path: str | Path) -> None:
    """Write a picture into a file, in the format of the suffix of its name.

    Raises ArgumentError for another suffix, and the errors of `render`; DbspError if the file
    cannot be written.
    """
    if not isinstance(path, str | PathLike):
        raise wrong_argument("path", "the name of a file", path)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ArgumentError(
            f"expected a file name that ends in one of {known}, got {path.name!r}", where=str(path)
        )
    if suffix in MERMAID_SUFFIXES:
        data = mermaid_text(picture).encode()
    elif suffix == ".json":
        data = json_text(picture).encode()
    else:
        dot = dot_text(picture)
        data = dot.encode() if suffix in DOT_SUFFIXES else render(dot, suffix[1:])
    try:
        path.write_bytes(data)
    except OSError as error:
        raise DbspError(
            f"the file cannot be written: {error.strerror}", where=str(path), code="unwritable-file"
        ) from error
