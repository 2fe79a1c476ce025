"""The console of a deployment with nothing in it, and of one that has failed."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Served, visiting
from tests.browser.test_console import ask
from tests.browser.test_pages import AXE, SERIOUS

PAGES = (
    "/", "/graph", "/queries", "/sql", "/explore", "/streams", "/decisions", "/rules", "/savings", "/plans", "/parcels",
    "/system",
)  # fmt: skip


def test_pages_of_an_empty_deployment_say_what_to_do(chromium, tmp_path):
    served = Served(tmp_path, "")
    try:
        with visiting(chromium, served) as visitor:
            page = visitor.page
            visitor.enter()
            page.evaluate(AXE.read_text())
            found = []
            for path in PAGES:
                visitor.go(path)
                page.wait_for_selector("#content h1", state="attached")
                visitor.until("() => !document.querySelector('#content').innerText.includes('loading')")
                found += [f"{path}: {finding}" for finding in page.evaluate(SERIOUS)]
            assert found == []
            visitor.go("/")
            page.click("section:has-text('Nothing runs yet') button")
            page.wait_for_selector("[data-editor] .cm-content")
            page.click("button:has-text('Run all')")  # what the page offers works
            page.wait_for_selector("[data-rows] tbody tr")
            visitor.go("/")
            page.wait_for_selector("svg [data-node]")
    finally:
        served.stop()


def test_a_deployment_that_has_failed_says_why_and_is_tried_again(chromium, tmp_path):
    out = tmp_path / "out"
    served = Served(
        tmp_path,
        f"""CREATE STREAM bids (n INT) FROM MEMORY;
        CREATE QUERY every AS SELECT n FROM bids INTO FILES (path '{out}', format 'json');""",
    )
    try:
        with visiting(chromium, served) as visitor:
            page = visitor.page
            visitor.enter("/queries/every")
            page.wait_for_selector("h1:has-text('every')")
            out.rmdir()
            ask(served, "/streams/bids/rows", [{"n": 1}])
            page.wait_for_selector("[data-banner=failed]")
            assert "results cannot be written" in page.inner_text("[data-banner=failed]")
            assert page.inner_text("h1") == "every"  # pages still work
            out.mkdir()
            visitor.go("/system")
            page.click("button:has-text('Try again')")
            page.wait_for_selector("[data-banner=failed]", state="detached")
            visitor.patiently(lambda: any(Path(out).iterdir()))
    finally:
        served.stop()


def test_rows_before_the_page_was_opened_are_not_called_skipped(chromium, tmp_path):
    statements = """
        CREATE STREAM numbers (n INT) FROM GENERATOR (rate 4000, rows 1200, seed 1);
        CREATE QUERY all_numbers AS SELECT n FROM numbers;
    """
    served = Served(tmp_path, statements)
    try:
        with visiting(chromium, served) as visitor:
            visitor.enter("/streams")
            visitor.page.wait_for_selector("td:has-text('1.2 k')")
            visitor.go("/queries/all_numbers")
            visitor.page.wait_for_selector("text='500 rows'")
            assert "skipped" not in visitor.page.inner_text("#content")
    finally:
        served.stop()


def test_a_small_line_has_no_area_below_times_of_which_nothing_is_known(chromium, tmp_path):
    served = Served(tmp_path, "CREATE STREAM n (n INT) FROM GENERATOR (rate 50); CREATE QUERY q AS SELECT n FROM n;")
    ends = """() => {
        const line = document.querySelector("td path.line")?.getAttribute("d").match(/^M([0-9.]+) /);
        const area = document.querySelector("td path.area")?.getAttribute("d").match(/L([0-9.]+) [0-9.]+Z$/);
        return line && Number(line[1]) > 1 ? [Number(line[1]), Number(area[1])] : null;
    }"""
    try:
        with visiting(chromium, served) as visitor:
            visitor.enter("/streams")
            begin, area = visitor.patiently(lambda: visitor.page.evaluate(ends))
            assert area == begin
    finally:
        served.stop()
