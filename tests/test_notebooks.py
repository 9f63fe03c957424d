"""The notebooks of the documentation run, and show their results as they say."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from docs.site import notebook_pages
from docs.site.notebook_pages import DOCS, NOTEBOOKS, executed, page_of

TUTORIAL = DOCS / "tutorial" / "first-ten-minutes.ipynb"
SEEN = DOCS / "tutorial" / "dbsp-seen.ipynb"


@pytest.fixture(scope="module")
def cells() -> dict[str, Any]:
    """The code cells of the executed tutorial, by identifier."""
    return {cell["id"]: cell for cell in executed(TUTORIAL).cells if cell.cell_type == "code"}


def html_of(cell: Any) -> str:
    (output,) = cell.outputs
    html: str = output.data["text/html"]
    return html


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Any) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell["id"] for cell in cells if cell.outputs or cell.execution_count is not None] == []
    assert TUTORIAL in NOTEBOOKS


def test_every_cell_has_the_display_of_its_value(cells: dict[str, Any]) -> None:
    expected = {
        "frame": ["cargo bike"],
        "program": ["program &lt;program&gt;", '<span class="dbsp-s-name">affected</span>'],
        "start": ["view", "product<small>str</small>", ">1</td>"],
        "tick": ['<tr class="dbsp-added"><td>box</td>', '<tr class="dbsp-removed"><td>wheel</td>'],
        "to-pandas": ["dataframe", "frame"],
        "why": ["proof of", "recalled(&quot;steel&quot;)"],
        "why-not": ["why not", "is missing"],
        "circuit": ["<svg", "Input order"],
        "orders": ["tick 1", "3200.0"],
        "update": ['<tr class="dbsp-removed"><td class="dbsp-right">3</td>'],
        "run": ["run of sales", "traces", "<svg"],
    }
    for name, parts in expected.items():
        html = html_of(cells[name])
        assert [part for part in parts if part not in html] == [], name
    assert "bicycle" not in html_of(cells["tick"])
    assert set(cells) == {*expected, "mistake"}


def test_every_value_of_a_circuit_is_seen() -> None:
    found: dict[str, str] = {}
    for cell in executed(SEEN).cells:
        if cell.cell_type == "code":
            forms = [output.get("data", {"text/html": output.get("text")}) for output in cell.outputs]
            found[cell["id"]] = " ".join(form.get("text/html") or form["text/plain"] for form in forms)
    parts = {
        "filter": ["<td>eve</td>"],
        "filter-trace": ["Filter euro &gt;= 25", "-(&#x27;ann&#x27;, &#x27;lamp&#x27;, 30)"],
        "join": ["<svg", "Integrate"],
        "join-load": ["Bern"],
        "join-trace": ["Join on who", "+(&#x27;Bern&#x27;, &#x27;pen&#x27;)"],
        "distinct": ["<td>tea</td>"],
        "distinct-trace": ["Distinct", "-(&#x27;pen&#x27;)"],
        "recursion": ["<svg", "Fixpoint"],
        "recursion-load": ["iteration 4 [(1, 8), (3, 8)]"],
        "recursion-delete": ["iteration 4 {(1, 8): -1, (3, 8): -1}"],
        "recursion-before": ["(35, 20)"],
        "multiway": ["<td", ">6</td>"],
        "multiway-trace": ["Multi", "-(1, 2, 3)"],
        "multiway-counts": ["atom=2"],
    }
    assert set(found) == set(parts)
    for name, expected in parts.items():
        assert [part for part in expected if part not in found[name]] == [], (name, found[name][:3000])


def test_the_lines_of_a_notebook_are_named_by_their_cell(cells: dict[str, Any]) -> None:
    number = cells["circuit"].execution_count
    assert f"In[{number}]:2<" in html_of(cells["circuit"])


def test_the_traceback_of_a_mistake_ends_at_the_cell(cells: dict[str, Any]) -> None:
    (output,) = cells["mistake"].outputs
    assert output.ename == "InputError" and "expected float, got 'expensive'" in output.evalue
    text = "\n".join(output.traceback)
    assert "ticks.py" not in text and "dbsp/" not in text


def test_a_notebook_becomes_a_page() -> None:
    page = page_of(TUTORIAL)
    assert page.startswith("# The first ten minutes\n\n[Download this notebook](first-ten-minutes.ipynb).")
    assert "```python\nrun.step(\n" in page and '<tr class="dbsp-added">' in page and "<svg" in page
    assert "\x1b" not in page


def test_links_to_notebooks_lead_to_their_pages() -> None:
    class Page:
        class file:
            src_uri = "README.md"

    def link(markdown: str) -> str:
        return notebook_pages.on_page_markdown(markdown, page=Page)  # type: ignore[arg-type]

    assert link("[a](tutorial/b.ipynb), b.ipynb") == "[a](tutorial/b.md), b.ipynb"
    Page.file.src_uri = "tutorial/first-ten-minutes.md"
    assert link("[a](b.ipynb)") == "[a](b.ipynb)"


def test_a_cell_that_fails_stops_the_build(tmp_path: Any) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    path = tmp_path / "broken.ipynb"
    nbformat.write(notebook, path)
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(path)
