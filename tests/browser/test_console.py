"""The console in a real browser: what a user does on each page, and what must never happen."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.browser.conftest import Served, Visitor, visiting

from headrace.server.tokens import TokenFile, token_path


def ask(served: Served, path: str, body: Any = None) -> Any:
    """Ask the server as a program does."""
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{served.address}/api/v1{path}", data, headers)) as answer:
        return json.load(answer)


def write(visitor: Visitor, text: str) -> Any:
    """Put a text into the editor in place of what is there; return where it is."""
    visitor.enter("/sql")
    content = visitor.page.locator("[data-editor] .cm-content")
    content.click()
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.press("Delete")
    visitor.page.keyboard.insert_text(text)
    return content


def test_the_token_becomes_a_cookie_and_leaves_the_address(chromium, traffic):
    with visiting(chromium, traffic) as visitor:
        page = visitor.page
        page.goto(traffic.address)
        page.wait_for_selector("input#token")
        assert page.locator("[data-batch]").count() == 0  # no data without a token
        assert "speed_map" not in page.content()
        page.fill("input#token", "wrong")
        page.click("text=Open the console")
        page.wait_for_selector("[role=alert]")
        page.goto("about:blank")
        visitor.enter()
        assert "token" not in page.url
        cookies = page.context.cookies()
        assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
        assert traffic.token not in json.dumps(cookies)
        page.reload()
        page.wait_for_selector("[data-batch]")


def test_figures_move_and_are_those_of_the_server(visitor: Visitor, traffic: Served):
    visitor.enter()
    visitor.until("first => Number(document.querySelector('[data-batch]').dataset.batch) > first", visitor.batch())
    visitor.go("/graph?view=table")
    visitor.page.wait_for_selector("[data-operators] tbody tr")
    shown = visitor.page.eval_on_selector_all("[data-vertex]", "rows => rows.map(row => row.dataset.vertex)")
    assert sorted(shown) == sorted(vertex["id"] for vertex in ask(traffic, "/operators")["vertices"])
    visitor.until("() => [...document.querySelectorAll('[data-in]')].some(cell => Number(cell.dataset.in) > 0)")


def test_the_past_is_there_when_the_page_opens(visitor: Visitor, traffic: Served):
    visitor.enter("/queries/speed_map")
    visitor.page.wait_for_selector("canvas")
    said = visitor.page.get_attribute("figure[role=img]", "aria-label")
    assert said is not None
    assert said.startswith("Latency of speed_map. Now: latency ")
    assert len(ask(traffic, "/history?series=query.speed_map.latency_ms")["times"]) > 1


def test_the_editor_shows_an_error_at_its_place_and_repairs_it(visitor: Visitor):
    page = visitor.page
    content = write(visitor, "SELECT '\U0001f697' AS car, sped FROM probes WHERE speed < 50;")
    squiggle = page.locator("[data-editor] .cm-lintRange-error")
    squiggle.wait_for()
    assert squiggle.inner_text() == "sped"  # although a character before it counts twice
    assert "speed" in page.inner_text("[data-status]")
    page.keyboard.press("Control+.")
    page.wait_for_selector("text=no problem found")
    assert "AS car, speed FROM" in content.inner_text()
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-rows] tbody tr")
    assert "\U0001f697" in page.inner_text("[data-rows] tbody tr")
    first = int(page.get_attribute("[data-total]", "data-total") or 0)
    visitor.until("first => Number(document.querySelector('[data-total]').dataset.total) > first", first)
    page.click("button:has-text('Pause')")
    page.wait_for_selector("button:has-text('Go on')")
    held = page.get_attribute("[data-total]", "data-total")
    batch = visitor.batch()
    visitor.until("first => Number(document.querySelector('[data-batch]').dataset.batch) > first + 2", batch)
    assert page.get_attribute("[data-total]", "data-total") == held
    page.click("button:has-text('Go on')")
    visitor.until("held => Number(document.querySelector('[data-total]').dataset.total) > Number(held)", held)


def test_the_editor_completes_names_and_columns(visitor: Visitor):
    page = visitor.page
    content = write(visitor, "SELECT segment FROM detec")
    page.keyboard.press("Control+Space")
    page.locator("[data-editor] .cm-tooltip-autocomplete li:has-text('detectors')").first.wait_for()
    page.wait_for_timeout(120)  # CodeMirror ignores a key that comes right after the list appears
    page.keyboard.press("Tab")
    assert content.inner_text().strip() == "SELECT segment FROM detectors"


def test_typing_over_a_selection_needs_no_exception_in_the_policy(visitor: Visitor):
    page = visitor.page
    content = write(visitor, "SELECT segment FROM detectors")
    page.keyboard.press("Control+a")
    page.keyboard.type("x")  # Visitor checks that the policy refused nothing
    assert content.inner_text().strip() == "x"
    page.keyboard.press("Control+a")
    page.keyboard.type("(")
    assert content.inner_text().strip() == "(x)"  # what is selected is put in brackets, as before


def test_a_button_shows_its_statement_before_it_runs(visitor: Visitor, traffic: Served):
    page = visitor.page
    visitor.enter("/queries/slow")
    page.click("button:has-text('Stop')")
    assert page.inner_text("[data-statement]") == "STOP QUERY slow;"
    assert ask(traffic, "/queries/slow")["figures"]["state"].startswith("on")
    page.click("dialog button:has-text('Run')")
    page.wait_for_selector("button:has-text('Start')")
    assert not ask(traffic, "/queries/slow")["figures"]["state"].startswith("on")
    page.click("button:has-text('Start')")
    page.click("dialog button:has-text('Run')")
    page.wait_for_selector("button:has-text('Stop')")


def test_the_graph_works_by_keyboard(visitor: Visitor):
    page = visitor.page
    visitor.enter("/graph?query=speed_map")
    page.wait_for_selector("svg [data-node]")
    nodes = page.locator("svg [data-node]")
    assert nodes.count() >= 3
    page.evaluate("document.querySelector('svg [data-node]').focus()")
    seen = {page.evaluate("document.activeElement.dataset.node")}
    forward = (
        "ArrowRight"
        if page.evaluate("document.querySelector('svg').clientWidth > 1.2 * document.querySelector('svg').clientHeight")
        else "ArrowDown"
    )
    for _ in range(nodes.count() - 1):
        page.keyboard.press(forward)
        seen.add(page.evaluate("document.activeElement.dataset.node"))
    assert len(seen) >= 3
    page.keyboard.press("Enter")
    page.wait_for_selector("aside[aria-label='The chosen operator']")
    assert "vertex=" in page.url  # a link is a state


def test_keys_and_search_lead_everywhere(visitor: Visitor):
    page = visitor.page
    visitor.enter()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_selector("h1:has-text('Decisions')")
    page.keyboard.press("Control+k")
    page.fill("input[role=combobox]", "speed_m query")
    page.wait_for_selector("[role=option]:has-text('speed_map')")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('speed_map')")
    before = page.evaluate("getComputedStyle(document.body).color")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).color") != before


def test_detections_of_a_rule_are_in_its_lane_with_those_before_the_page_was_opened(visitor: Visitor, traffic: Served):
    before = visitor.patiently(lambda: ask(traffic, "/rules/notify/detections")["batches"])
    visitor.enter("/rules")
    visitor.page.wait_for_selector("[data-rule=notify]")
    visitor.until("() => Number(document.querySelector('[data-detections]').dataset.detections) > 0")
    visitor.until("least => Number(document.querySelector('[data-dots]').dataset.dots) >= least", min(2, len(before)))
    visitor.page.click("[data-rule=notify] summary:has-text('Newest detections')")
    visitor.page.wait_for_selector("[data-rule=notify] [data-listing] tbody tr")
    assert "segment" in visitor.page.inner_text("[data-rule=notify] [data-listing] thead")


def test_a_call_that_fails_is_in_the_outbox_and_then_given_up(visitor: Visitor):
    visitor.enter("/rules")
    visitor.page.wait_for_selector("[data-outbox], [data-given-up]")
    visitor.page.wait_for_selector("[data-given-up] tbody tr")
    given_up = visitor.page.inner_text("[data-given-up]")
    assert "127.0.0.1:9" in given_up
    assert "refused" in given_up


def test_late_records_are_shown_with_their_reason(visitor: Visitor):
    visitor.enter("/streams/detectors")
    visitor.page.wait_for_selector("[data-listing] tbody tr:has-text('behind the newest timestamp')")


def test_a_moment_of_the_past_is_shown_with_its_figures(visitor: Visitor, traffic: Served):
    first = visitor.patiently(lambda: ask(traffic, "/decisions")["decisions"])[0]
    visitor.enter(f"/decisions?at={first['at'] + 3000}")
    visitor.page.wait_for_selector("h2:has-text('Around')")
    around = visitor.page.locator("section[aria-labelledby=around]")
    around.locator("[data-decision]").first.wait_for()
    assert "because" in around.inner_text()
    visitor.until("() => document.querySelector('[data-moment]')?.innerText.includes('latency of speed_map')")


def test_who_may_only_read_sees_no_buttons_and_is_refused(chromium, traffic):
    token = TokenFile(token_path(traffic.checkpoint)).add("reader", "read")
    with visiting(chromium, traffic) as visitor:
        visitor.page.goto(f"{traffic.address}/#token={token}")
        visitor.page.wait_for_selector("[data-batch]")
        visitor.go("/queries/slow")
        visitor.page.wait_for_selector("h1:has-text('slow')")
        assert visitor.page.locator("button:has-text('Stop'), button:has-text('Drop')").count() == 0
        status = """async () => (await fetch("/api/v1/statements", {method: "POST", body: '{"text": "STOP QUERY slow"}',
            headers: {"Content-Type": "application/json"}})).status"""
        assert visitor.page.evaluate(status) == 403
        visitor.faults.clear()  # the browser tells of the refusal


def test_savings_show_what_feedback_saved(visitor: Visitor):
    visitor.enter("/savings")
    visitor.page.wait_for_selector("[data-feedback] tbody tr")
    assert "segment" in visitor.page.inner_text("[data-feedback]")


def test_parcels_of_keys_are_moved_by_a_statement(visitor: Visitor, traffic: Served):
    page = visitor.page
    visitor.enter("/parcels")
    mine = page.locator("[data-parcels=speed_map]")
    first = mine.locator("[data-parcel]").first
    first.wait_for()
    parcel, bucket = first.get_attribute("data-parcel"), first.get_attribute("data-bucket")
    mine.locator(f"[data-parcel='{parcel}'] input").check()
    other = str(1 - int(bucket or 0))
    assert mine.locator("select").input_value() == other
    mine.locator("button:has-text('Move')").click()
    assert page.inner_text("[data-statement]") == f"MOVE PARCELS {parcel} OF speed_map TO BUCKET {other};"
    page.click("dialog button:has-text('Run')")
    page.wait_for_selector(f"[data-parcels=speed_map] [data-parcel='{parcel}'][data-bucket='{other}']")
    rows = ask(traffic, "/statements", {"text": "SHOW PARCELS"})["outcomes"][0]["rows"]
    assert [parcel, other] in [[str(row[1]), str(row[3])] for row in rows]


def test_a_heavy_parcel_of_a_join_is_split_and_shown(visitor: Visitor):
    page = visitor.page
    visitor.enter("/parcels")
    mine = page.locator("[data-parcels=slow]").first
    first = mine.locator("[data-parcel]").first
    first.wait_for()
    parcel = first.get_attribute("data-parcel")
    mine.locator(f"[data-parcel='{parcel}'] input").check()
    mine.locator("select").select_option("all")
    mine.locator("button:has-text('Move')").click()
    assert page.inner_text("[data-statement]") == f"MOVE PARCELS {parcel} OF slow TO ALL BUCKETS;"
    page.click("dialog button:has-text('Run')")
    page.wait_for_selector("[data-parcels=slow] [data-split='1']")
    assert "split over 0, 1" in page.inner_text(f"[data-parcels=slow] [data-parcel='{parcel}'][data-bucket='0 1']")


def test_a_plan_is_a_picture_before_the_query_runs(visitor: Visitor):
    page = visitor.page
    write(visitor, "SELECT segment, count(*) AS n FROM probes [RANGE 1 SECOND] WHERE speed > 10 GROUP BY segment;")
    page.click("button:has-text('Explain')")
    page.wait_for_selector("[data-plan] svg [data-node]")
    titles = page.locator("[data-plan] svg [data-node]").all_text_contents()
    assert any("probes" in title for title in titles)
    assert any("count" in title for title in titles)
    page.locator("[data-plan] svg [data-node]:has-text('filter')").first.click()
    visitor.until("() => document.querySelector('[data-plan] [role=status]').innerText.includes('speed > 10')")


def test_a_snapshot_is_explored_as_a_table_and_as_a_file(visitor: Visitor):
    page = visitor.page
    visitor.enter("/explore")
    page.locator("[data-editor] .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(
        "SELECT name, rate FROM headrace.streams WHERE name IN ('probes', 'detectors') ORDER BY name"
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-snapshot='2']")
    assert page.locator("[data-snapshot] tbody tr").first.inner_text().startswith("detectors")
    with page.expect_download() as got:
        page.click("[data-snapshot] button:has-text('CSV')")
    assert Path(got.value.path()).read_text().splitlines()[0] == "name,rate"
    page.locator("[data-editor] .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("DROP TABLE probes")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=a snapshot only reads")
    visitor.faults.clear()  # the browser tells of the refusal


def test_the_plain_page_works_without_script(chromium, traffic):
    with visiting(chromium, traffic, java_script_enabled=False) as visitor:
        page = visitor.page
        page.goto(f"{traffic.address}/plain")
        page.fill("#token", traffic.token)
        page.click("button")
        assert "speed_map" in page.inner_text("body")
        page.fill("#text", "SHOW STREAMS;")
        page.click("button:has-text('Run')")
        assert "detectors" in page.inner_text("pre")
        visitor.faults.clear()
        page.goto("about:blank")
