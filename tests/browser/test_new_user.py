"""A new user with only the page and the overload example finds bottleneck, broken promise, decision and remedy."""

from __future__ import annotations

from tests.browser.conftest import ROOT, Served, visiting

#: The example says: raise the rate until the machine is overloaded. Every machine is, by this one.
RATE = 400_000


def test_four_clicks(chromium, tmp_path):
    example = (ROOT / "examples" / "overload.sql").read_text()
    assert "rate 60000" in example
    # with the latency of the example, shedding would keep the promise after a while; nothing keeps this one
    served = Served(tmp_path, example.replace("rate 60000", f"rate {RATE}").replace("latency '2 s'", "latency '5 ms'"))
    try:
        with visiting(chromium, served) as visitor:
            page = visitor.page
            page.context.set_default_timeout(100_000)  # a micro-batch of an overloaded machine is long
            visitor.enter()
            page.wait_for_selector("[data-promise='near_roads latency'][data-kept=false]")
            page.wait_for_selector("[data-decision]")
            page.wait_for_function("() => document.querySelector('[data-answer=bottleneck]').innerText.includes('◉')")
            # 1. which promise is broken
            page.click("[data-answer=promises]")
            page.wait_for_selector("h1:has-text('near_roads')")
            page.wait_for_selector("[data-kept=false]")
            # 2. what would help
            page.click("[data-action=help]")
            page.wait_for_selector("[data-help] .offers li")
            assert page.locator("[data-help] .offers").inner_text()
            # 3. where the bottleneck is
            page.click("a:has-text('bottleneck:')")
            page.wait_for_selector("aside:has-text('the bottleneck')")
            # 4. what was decided, and why
            page.click("nav a:has-text('Decisions')")
            page.wait_for_selector("[data-decision]")
            assert "because" in page.inner_text("[data-decision]")
    finally:
        served.stop()
