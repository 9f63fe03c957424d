"""Build hook of the site: pages from the root, fences of examples, pictures of circuits.

A page marks a block with `draw=NAME`, as in

    ```python draw=circuit

NAME is a variable of the page's Python session that holds a circuit or a program, or, for a block
of `sh`, an SVG file that the block writes. The hook runs the examples of the page and shows the
picture below the block, so every picture shows the current circuit.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tests.quick_start import FENCE, Example, Session, examples

ROOT = Path(__file__).resolve().parents[2]
# Pages that come from the root of the repository, where readers of the code expect them.
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the root of the repository, with their links made relative to `docs`."""
    for name, source in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with plain fences, and with a picture below each block marked `draw=`."""
    pictures = draw_pictures(markdown)

    def plain(block: re.Match[str]) -> str:
        language, *_options = block["info"].split() or [""]
        line = markdown.count("\n", 0, block.start()) + 1
        return f"```{language}\n{block['body']}```\n{pictures.get(line, '')}"

    return FENCE.sub(plain, markdown)


def draw_pictures(page: str) -> dict[int, str]:
    """The HTML of each picture of the page, by the line of its block.

    The blocks run in their order, up to the last picture.
    """
    blocks = list(examples(page))
    drawn = [block for block in blocks if block.draw]
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder)) as session:
        for block in blocks[: blocks.index(drawn[-1]) + 1] if drawn else ():
            run(session, block)
            if block.draw and block.language == "python":
                path = picture_path(block, Path(folder))
                code = f"import dbsp\ndbsp.draw.write({block.draw}, {str(path)!r})\n"
                run(session, replace(block, code=code))
        return {block.line: figure(picture_path(block, Path(folder))) for block in drawn}


def run(session: Session, block: Example) -> None:
    """Run a block; raise RuntimeError with its message if it fails."""
    done = session.run(block)
    if not done.succeeded:
        raise RuntimeError(f"the example at line {block.line} fails:\n{done.errors}")


def picture_path(block: Example, folder: Path) -> Path:
    """The SVG file of the picture: the file that a `sh` block writes, or `line-N.svg`."""
    return folder / (f"line-{block.line}.svg" if block.language == "python" else str(block.draw))


def figure(path: Path) -> str:
    """The SVG in a file, as a figure of a page."""
    svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :].replace("\n", " ")  # Markdown ends raw HTML at an empty line
    width = re.search(r'width="(\d+)pt"', svg)
    style = f"--width: {width[1]}pt" if width else ""
    return f'\n<figure class="circuit" style="{style}">{svg}</figure>\n'
