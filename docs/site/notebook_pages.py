"""Build hook of the site: pages of notebooks, executed when the site is built.

The notebooks are stored without outputs. A link to a notebook becomes a link to its page; the page
links to the notebook itself, for a download.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

DOCS = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(DOCS.glob("*/*.ipynb"))
SECONDS = 300
"""The time limit of a cell; the first one may compile kernels."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every notebook."""
    for path in NOTEBOOKS:
        name = path.relative_to(DOCS).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=page_of(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Return a page with its links to notebooks led to their pages."""
    if (DOCS / page.file.src_uri).with_suffix(".ipynb").exists():
        return markdown
    return re.sub(r"(\]\([^)\s]+)\.ipynb\)", r"\1.md)", markdown)


def executed(path: Path) -> Any:
    """Return a notebook with the outputs of its cells.

    Raises CellExecutionError if a cell fails that has no tag `raises-exception`.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(path.parent)}}).execute()
    return notebook


def page_of(path: Path) -> str:
    """Return the page of a notebook: Markdown with the HTML of its outputs."""
    text, _ = MarkdownExporter().from_notebook_node(executed(path))
    title, _, rest = text.lstrip().partition("\n")
    return f"{title}\n\n[Download this notebook]({path.name}).\n{rest}"
