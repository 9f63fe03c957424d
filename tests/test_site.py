"""The build hook of the documentation site: fences, pictures of circuits, pages from the root."""

from __future__ import annotations

import pytest

from docs.site.page_examples import FROM_ROOT, ROOT, on_page_markdown

CIRCUIT = """```python draw=circuit
from dbsp import Circuit
circuit = Circuit("shop")
circuit.output("copy", circuit.input("orders", id=int))
```
"""


def test_fences_lose_what_only_the_tests_read() -> None:
    page = "```sh no-run\nrm x\n```\n\n```python\nx = 1\n```\n\n```\nplain\n```\n"
    assert on_page_markdown(page) == "```sh\nrm x\n```\n\n\n```python\nx = 1\n```\n\n\n```\nplain\n```\n\n"


def test_a_circuit_is_drawn_below_its_block() -> None:
    shown = on_page_markdown(f"# Title\n\n{CIRCUIT}\nText.\n")
    code, _, rest = shown.partition('<figure class="circuit"')
    assert code.startswith("# Title\n\n```python\nfrom dbsp import Circuit\n")
    assert "Output copy" in rest
    assert "example.py:3" in rest  # the place of the node in the page's program
    assert rest.endswith("</figure>\n\n\nText.\n")


def test_a_file_that_a_command_draws_is_shown() -> None:
    page = "```sh draw=x.svg\nprintf '<?xml?><svg width=\"12pt\">one\\ntwo</svg>' > x.svg\n```\n"
    assert '<figure class="circuit" style="--width: 12pt"><svg width="12pt">one two</svg></figure>' in (
        on_page_markdown(page)
    )


def test_an_example_that_fails_stops_the_build() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        on_page_markdown("```python draw=x\nx = 1 / 0\n```\n")


def test_the_pages_from_the_root_exist() -> None:
    assert [name for name in FROM_ROOT.values() if not (ROOT / name).is_file()] == []


def test_the_parameters_of_dataclasses_are_in_the_reference() -> None:
    import griffe

    extensions = griffe.load_extensions(str(ROOT / "docs" / "site" / "documented_dataclasses.py"))
    loader = griffe.GriffeLoader(search_paths=[ROOT], extensions=extensions)
    package = loader.load("dbsp.runtime", submodules=True)
    updated = package["update_report.Updated"]
    assert "deltas" in updated.parameters
