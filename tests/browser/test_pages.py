"""All pages of the console in a real browser: accessible, narrow enough, free of what names and rows contain."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from tests.browser.conftest import ROOT, Served, Visitor, visiting

#: Where pictures of all pages are to be put, if anywhere.
PICTURES = Path(os.environ["HEADRACE_PICTURES"]) if "HEADRACE_PICTURES" in os.environ else None
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
HARMFUL = "/queries/%3Cscript%3Ealert(4)%3C%2Fscript%3E"
#: Pages, and what is there once a page has what it shows.
PAGES = {
    "/": "svg [data-node]",
    "/graph": "svg [data-node]",
    "/graph?view=table": "[data-operators] tbody tr",
    "/queries": "table tbody tr",
    "/queries/speed_map?help=1": "[data-rows] tbody tr",
    HARMFUL: "[data-rows] tbody tr",
    "/sql": "[data-editor] .cm-content",
    "/explore": "[data-editor] .cm-content",
    "/streams": "table tbody tr",
    "/streams/detectors": "[data-listing] tbody tr",
    "/streams/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E": "table tbody tr",
    "/decisions": "[data-decision]",
    "/rules": "[data-rule=notify]",
    "/savings": "[data-feedback] tbody tr",
    "/plans": "pre",
    "/parcels": "[data-parcels] [data-parcel]",
    "/system": "table tbody tr",
    "/no/such/page": "a",
}


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 360), *([("dark", 1920), ("light", 360)] if PICTURES else [])]
)
def test_every_page_is_accessible_fits_and_runs_nothing_foreign(chromium, traffic, scheme, width):
    with visiting(chromium, traffic, color_scheme=scheme, viewport={"width": width, "height": 800}) as visitor:
        page = visitor.page
        visitor.enter()
        page.wait_for_selector("svg [data-node]")
        dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (dark == "rgb(13, 18, 24)") == (scheme == "dark")
        axe = AXE.read_text() if AXE.is_file() else None
        assert axe is not None, "axe-core is not installed: web/build"
        page.evaluate(axe)
        found = []
        for path, loaded in PAGES.items():
            visitor.go(path)
            page.wait_for_selector("#content h1", state="attached")
            page.wait_for_selector(f"#content {loaded}", state="attached")
            if path == "/explore":
                page.click("[data-action=run]")
                page.wait_for_selector("[data-snapshot]")
            page.wait_for_timeout(150)  # what comes after that
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                found.append(f"{path}: {wide} px too wide")
            found += [f"{path}: {finding}" for finding in page.evaluate(SERIOUS)]
            if PICTURES is not None:
                name = f"{re.sub(r'[^a-z]+', '-', path).strip('-') or 'overview'}-{scheme}-{width}.png"
                page.screenshot(path=PICTURES / name)
        assert found == []


SERIOUS = """async () => {
  const { violations } = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] });
  return violations.filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => `${each.id}: ${each.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')}`);
}"""


def test_names_and_rows_that_look_like_html_are_text(visitor: Visitor):
    page = visitor.page
    visitor.enter(HARMFUL)
    page.wait_for_selector("[data-rows] tbody tr")
    row = page.inner_text("[data-rows] tbody tr")
    assert row in ("<img src=x onerror=alert(2)>", "<svg onload=alert(3)>")
    assert page.inner_text("[data-rows] thead").strip() == "<b>bold</b>"
    assert "<script>alert(4)</script>" in page.inner_text("h1")
    assert page.locator("#content img").count() == 0
    visitor.go("/sql")
    page.wait_for_selector("summary:has-text('<img src=x onerror=alert(1)>')")  # dialogs are faults: see Visitor


def test_the_page_goes_on_after_a_crash(chromium, tmp_path):
    statements = (Path(__file__).parent / "traffic.sql").read_text().partition("CREATE STREAM probes")[0]
    served = Served(tmp_path, statements)
    try:
        with visiting(chromium, served) as visitor:
            visitor.enter("/streams/detectors")
            visitor.page.wait_for_selector("h1:has-text('detectors')")
            served.kill()
            visitor.page.wait_for_selector("[data-banner=lost]")
            assert visitor.page.inner_text("h1") == "detectors"  # what was on screen stays
            served.start()
            visitor.page.wait_for_selector("[data-banner=locked]")  # cookies end with a server
            assert visitor.page.inner_text("h1") == "detectors"
            visitor.page.fill("#token-again", served.token)
            visitor.page.click("[data-banner=locked] button")
            visitor.page.wait_for_selector("[data-banner]", state="detached")
            visitor.until("() => document.querySelector('[data-state]').dataset.state === 'idle'")
    finally:
        served.stop()


#: The pictures of the documentation: their names, pages, what is there, the width, and the colors.
SHOWN = (
    ("overview", "/", "svg [data-node]", 1280, "light"),
    ("graph", "/graph?query=slow_roads", "svg [data-node]", 1280, "light"),
    ("query", "/queries/slow_roads?help=1", "[data-rows] tbody tr", 1280, "light"),
    ("sql", "/sql", "[data-editor] .cm-content", 1280, "dark"),
    ("explore", "/explore", "[data-editor] .cm-content", 1280, "light"),
    ("streams", "/streams", "[data-table=history]", 1280, "light"),
    ("stream", "/streams/detectors", "[data-listing] tbody tr", 1280, "light"),
    ("rules", "/rules", "[data-dots]", 1280, "light"),
    ("decisions", "/decisions", "[data-decision]", 1280, "dark"),
    ("savings", "/savings", "[data-feedback] tbody tr", 1280, "light"),
    ("plans", "/plans", "pre", 1280, "light"),
    ("parcels", "/parcels", "[data-parcels] [data-parcel]", 1280, "light"),
    ("system", "/system", "table tbody tr", 1280, "light"),
    ("phone", "/queries/slow_roads?help=1", "[data-rows] tbody tr", 360, "dark"),
    ("wall", "/", "svg [data-node]", 1920, "dark"),
)
TYPED = """SELECT segment, avg(speed) AS speed, window_end
FROM detectors [RANGE 2 SECONDS]
WHERE speed > 5
GROUP BY segment;"""


@pytest.mark.skipif(PICTURES is None, reason="HEADRACE_PICTURES names no folder")
def test_pictures_for_the_documentation(chromium, tmp_path):
    assert PICTURES is not None
    served = Served(tmp_path, (Path(__file__).parent / "pictures.sql").read_text())
    try:
        time.sleep(40)  # there is to be something to see
        for name, path, loaded, width, scheme in SHOWN:
            size = {"width": width, "height": 1080 if width == 1920 else 800}
            with visiting(chromium, served, color_scheme=scheme, viewport=size) as visitor:
                page = visitor.page
                visitor.enter(path)
                page.wait_for_selector(f"#content {loaded}", state="attached")
                if name == "sql":
                    page.locator("[data-editor] .cm-content").click()
                    page.keyboard.press("Control+a")
                    page.keyboard.insert_text(TYPED)
                    page.click("button:has-text('Explain')")
                    page.wait_for_selector("[data-plan] svg [data-node]")
                if name == "explore":
                    page.select_option("select", label="Where the time goes")
                    page.wait_for_selector("[data-snapshot]")
                page.wait_for_timeout(2500)
                page.screenshot(path=PICTURES / f"console-{name}.png")
    finally:
        served.stop()
