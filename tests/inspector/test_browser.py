"""The page in a browser: it loads, steps, shows streams and iterations, edits rows, goes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect, sync_playwright
from playwright.sync_api import Page as Tab

import dbsp
from dbsp.inspector import serve
from dbsp.inspector.lessons import LESSONS
from dbsp.inspector.tour import Tour
from tests.inspector.browsers import chromium
from tests.inspector.support import Page, reach_page

pytestmark = pytest.mark.browser

# The first circuits of a process compile their kernels, which takes seconds on a busy machine.
PATIENCE = 120_000
"""Milliseconds until an expectation fails."""
expect.set_options(timeout=PATIENCE)

WIDE = (1280, 800)
NARROW = (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests: the Chromium of the system."""
    with sync_playwright() as playwright:
        # As root, as in containers, Chromium runs without its sandbox only. The page is our own.
        launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield launched
        launched.close()


class Inspected:
    """A tab that shows a run, and the complaints of the browser about it."""

    def __init__(self, page: Page, tab: Tab) -> None:
        self.page = page
        self.tab = tab
        self.complaints: list[str] = []
        tab.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        tab.set_default_timeout(PATIENCE)
        tab.goto(page.inspector.url)
        expect(tab.locator("body[data-ready]")).to_have_count(1)

    def box(self, title: str) -> Locator:
        return self.tab.locator(f"[data-id='{self.page.box(title)}']")

    def rows(self) -> list[list[str]]:
        rows = self.tab.locator("#stream .rows tbody tr")
        return [row.locator("td").all_inner_texts() for row in rows.all()]


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def inspected(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Inspected]:
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    try:
        with reach_page() as page:
            found = Inspected(page, context.new_page())
            yield found
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert found.tab.evaluate(overflow) <= 0
            found.tab.close()
        assert found.complaints == []
    finally:
        context.close()


def narrow(inspected: Inspected) -> bool:
    return inspected.tab.locator("#tab-circuit").is_visible()


def test_the_page_steps_and_shows_a_stream(inspected: Inspected) -> None:
    tab = inspected.tab
    expect(tab.locator("#circuit .node")).to_have_count(len(inspected.page.get("circuit")["nodes"]))
    tab.click("#step-script")
    expect(tab.locator("#tick")).to_contain_text("tick 2")
    expect(tab.locator("#step-script")).to_have_text("Step (1 left)")
    expect(inspected.box("Output path").locator(".numbers")).to_contain_text("Δ 3")
    inspected.box("Output path").dispatch_event("click")
    expect(tab.locator("#stream tbody tr")).to_have_count(3)
    assert [row[:3] for row in inspected.rows()] == [["+1", "1", "4"], ["+1", "2", "4"], ["+1", "3", "4"]]
    tab.click("#stream tbody tr:first-child button")
    expect(tab.locator(".proof pre")).to_contain_text("path(1, 4)   inserted in tick 2")
    tab.click("text=All rows")
    expect(tab.locator("#stream tbody tr")).to_have_count(6)
    tab.fill("#search", "4")
    expect(tab.locator("#stream .count")).to_have_text("3 of 6 rows match")
    tab.click("#stream tbody tr:first-child button")
    expect(tab.locator(".proof pre")).to_contain_text("edge(3, 4)   input fact")
    inspected.page.inspector.step({"edge": [(4, 5)]})  # the page follows the run
    expect(tab.locator("#tick")).to_contain_text("tick 3")
    tab.fill("#search", "5")
    expect(tab.locator("#stream .count")).to_have_text("4 of 10 rows match")


def test_a_change_is_shown_once(inspected: Inspected) -> None:
    tab, asked = inspected.tab, []
    tab.on("request", lambda request: asked.append(request.url) if "api/state" in request.url else None)
    for number in (2, 3):  # the page's own ticks have an answer and an event
        tab.click("#step-script")
        expect(tab.locator("#tick")).to_contain_text(f"tick {number}")
    inspected.page.inspector.step({"edge": [(4, 5)]})
    expect(tab.locator("#tick")).to_contain_text("tick 4")  # the events before it have come, too
    assert len(asked) == 3


def test_iterations_inside_a_scope(inspected: Inspected) -> None:
    tab, page = inspected.tab, inspected.page
    tab.click("#step-script")
    expect(tab.locator("#tick")).to_contain_text("tick 2")
    inspected.box("Fixpoint path").dispatch_event("click")
    expect(tab.locator("#stream .count")).to_contain_text("2 iterations in this tick")
    if narrow(inspected):
        tab.click("#tab-circuit")
    found = page.get("iterations", node=page.box("Fixpoint path"))["iterations"]
    for number, each in enumerate(found):
        tab.click("#iteration-forward")
        expect(tab.locator("#iteration")).to_have_text(f"iteration {number} of {len(found) - 1}")
        for node in page.get("circuit")["nodes"]:
            if node["frame"] == page.box("Fixpoint path"):
                rows = each["nodes"].get(node["id"], {"rows": 0})["rows"]
                numbers = tab.locator(f"[data-id='{node['id']}'] .numbers")
                expect(numbers).to_contain_text(f"Δ {rows}")
    if narrow(inspected):
        tab.click("#tab-circuit")
    tab.click("#iteration-back")
    inspected.box("Union").dispatch_event("click")
    expected = page.get("rows", node=page.box("Union"), iteration=0)["rows"]
    expect(tab.locator("#stream tbody tr")).to_have_count(len(expected))
    assert [row[1:] for row in inspected.rows()] == [row["cells"] for row in expected]
    if narrow(inspected):
        tab.click("#tab-circuit")
    tab.click("#iteration-all")
    if narrow(inspected):
        tab.click("#tab-stream")
    expect(tab.locator("#stream tbody tr")).to_have_count(3)


def test_edited_rows_and_their_errors(inspected: Inspected) -> None:
    tab = inspected.tab
    tab.click("#tab-edit")
    tab.fill("#edit-cell-0", "3")
    tab.fill("#edit-cell-1", "one")
    tab.keyboard.press("Enter")
    expect(tab.locator(".edits li")).to_have_count(1)
    tab.click("text=Apply as one tick")
    expect(tab.locator("#problem")).to_contain_text(
        "column 'y': expected a whole number, got 'one' [wrong-type]"
    )
    expect(tab.locator("#tick")).to_contain_text("tick 1")
    tab.click(".edits li button")
    tab.fill("#edit-cell-1", "1")
    tab.click("text=Insert")
    tab.fill("#edit-cell-0", "2")
    tab.fill("#edit-cell-1", "3")
    tab.click("text=Retract")
    tab.click("text=Apply as one tick")
    expect(tab.locator("#tick")).to_contain_text("tick 2")
    expect(tab.locator("#problem")).to_be_hidden()
    expect(tab.locator(".edits li")).to_have_count(0)
    with inspected.page.inspector.held() as run:
        assert run.asserted("edge").rows() == [(1, 2), (3, 1)]


def test_clicks_during_a_tick_are_not_lost(inspected: Inspected) -> None:
    tab = inspected.tab
    clicks = "(button, times) => { for (let each = 0; each < times; each++) button.click() }"
    tab.locator("#step-script").evaluate(clicks, 3)
    expect(tab.locator("#step-script")).to_have_text("Step (0 left)")
    expect(tab.locator("#tick")).to_contain_text("tick 3")
    expect(tab.locator("#problem")).to_be_hidden()  # the third click found no more ticks
    tab.click("#tab-edit")
    tab.fill("#edit-cell-0", "8")
    tab.fill("#edit-cell-1", "9")
    tab.keyboard.press("Enter")
    tab.locator("text=Apply as one tick").evaluate(clicks, 2)
    tab.fill("#edit-cell-1", "10")
    tab.keyboard.press("Enter")
    expect(tab.locator("#tick")).to_contain_text("tick 4")
    expect(tab.locator(".edits li")).to_have_count(1)
    with inspected.page.inspector.held() as run:
        assert run.tick == 4
        assert (8, 9) in run.asserted("edge").rows()


def test_going_back_over_ticks(inspected: Inspected) -> None:
    tab = inspected.tab
    for _ in range(2):
        tab.click("#step-script")
    expect(tab.locator("#tick")).to_contain_text("tick 3")
    inspected.box("Output path").dispatch_event("click")
    expect(tab.locator("#stream tbody tr")).to_have_count(3)
    assert {row[0] for row in inspected.rows()} == {"−1"}
    tab.click("#back")
    expect(tab.locator("#tick")).to_contain_text("tick 2")
    expect(tab.locator("#stream")).to_contain_text("Changes of tick 2")
    expect(tab.locator("#stream tbody td.weight").first).to_have_text("+1")
    tab.click("text=All rows after tick 2")
    expect(tab.locator("#stream tbody tr")).to_have_count(6)
    expect(tab.locator("#back")).to_be_disabled()
    tab.click("#latest")
    expect(tab.locator("#stream tbody tr")).to_have_count(3)


def test_the_keyboard_reaches_everything(inspected: Inspected) -> None:
    tab = inspected.tab
    names = tab.evaluate(
        """() => [...document.querySelectorAll('button, input, select, [tabindex]')]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length
                || each.querySelector('title')))
            .map((each) => each.outerHTML)"""
    )
    assert names == []
    if narrow(inspected):
        tab.click("#tab-circuit")
    first = tab.locator("#circuit .node[tabindex='0']")
    expect(first).to_have_count(1)  # one stop for all boxes; the arrow keys move between them
    first.focus()
    name = first.get_attribute("data-id")
    tab.keyboard.press("ArrowDown")
    focused = tab.locator("#circuit .node:focus")
    assert focused.get_attribute("data-id") != name
    assert focused.locator(".body").first.evaluate("each => getComputedStyle(each).strokeWidth") == "4px"
    tab.keyboard.press("Enter")
    expect(tab.locator("#stream h2")).to_be_visible()
    tab.locator("#tab-stream").focus()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#tab-edit")).to_be_focused()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#operators tbody tr")).to_have_count(len(inspected.page.get("circuit")["nodes"]))
    tab.fill("#operators input", "output path")
    expect(tab.locator("#operators tbody tr")).to_have_count(1)
    tab.locator("#operators tbody button").focus()
    tab.keyboard.press("Space")
    expect(tab.locator("#stream h2")).to_contain_text("Output path")


def test_scopes_collapse_and_stages_change(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, color_scheme="dark")
    with reach_page() as page:
        inspected = Inspected(page, context.new_page())
        tab = inspected.tab
        boxes = page.get("circuit")["nodes"]
        inside = sum(node["frame"] != "" for node in boxes)
        scope = inspected.box("Fixpoint path")
        scope.focus()
        tab.keyboard.press("c")
        expect(tab.locator("#circuit .node")).to_have_count(len(boxes) - inside)
        expect(scope).to_be_focused()
        tab.keyboard.press("c")
        expect(tab.locator("#circuit .node")).to_have_count(len(boxes))
        tab.click("#step-script")  # with animation
        expect(tab.locator("#circuit .edge.active").first).to_be_attached()
        for stage in ("incremental", "query", "run"):
            tab.select_option("#stage", stage)
            expect(tab.locator("#circuit .node")).to_have_count(
                len(page.get("circuit", stage=stage)["nodes"])
            )
        colour = "getComputedStyle(document.body).backgroundColor"
        assert max(map(int, tab.evaluate(colour)[4:-1].split(","))) < 60
        tab.close()
    assert inspected.complaints == []
    context.close()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_tour(browser: Browser, size: tuple[int, int]) -> None:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    complaints: list[str] = []
    try:
        with Tour() as tour:
            tab = context.new_page()
            tab.on("console", lambda message: complaints.append(message.text))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.set_default_timeout(PATIENCE)
            tab.goto(tour.url)
            for number, lesson in enumerate(LESSONS, 1):
                expect(tab.locator("#lesson h2")).to_contain_text(f"{number}. {lesson.title}")
                button = tab.locator("#lesson-step").element_handle()
                for tick in lesson.ticks:
                    expect(tab.locator("#lesson-next")).to_have_text(tick.text)
                    tab.locator("#lesson-step").press("Enter")
                expect(tab.locator("#lesson-next")).to_have_text(lesson.end)
                expect(tab.locator("#tick")).to_contain_text(f"tick {len(lesson.ticks)}")
                # A button that a tick replaces would lose the clicks in progress.
                assert tab.evaluate("(button) => button.isConnected", button)
                if number < len(LESSONS):
                    tab.click("text=Next lesson")
            expect(tab.locator("text=Next lesson")).to_have_count(0)
            tab.close()
    finally:
        context.close()
    assert complaints == []


def test_texts_are_cut_to_the_width_of_their_boxes(browser: Browser) -> None:
    columns = ", ".join(f"{letter * 3}: number" for letter in "mwiab")
    names = ", ".join(letter * 3 for letter in "mwiab")
    program = dbsp.compile(
        f".decl wide({columns}) .input wide .decl narrow({columns}) .output narrow "
        f"narrow({names}) :- wide({names}), wide({names.replace('mmm, www', 'www, mmm')})."
    )
    with serve(program.start({"wide": [(1, 1, 1, 1, 1)]}), program) as inspector:
        tab = browser.new_page()
        tab.goto(inspector.url)
        expect(tab.locator("body[data-ready]")).to_have_count(1)
        expect(tab.locator("#circuit .node").first).to_be_visible()
        widths = tab.evaluate(
            """() => [...document.querySelectorAll("#circuit .node:not(.frame)")].flatMap((node) =>
                [...node.querySelectorAll("text.label, text.detail")].map((text) =>
                    [text.textContent, text.getBBox().x + text.getBBox().width,
                     node.querySelector("rect").getBBox().width]))"""
        )
        tab.close()
    assert any(text.endswith("…") for text, _, _ in widths)
    assert [text for text, right, width in widths if right > width - 4] == []
    assert all(right > width - 40 for text, right, width in widths if text.endswith("…"))
