"""Tabs of a real browser that show results of a query; when each micro-batch was on screen."""

from __future__ import annotations

import os
import shutil
import time

#: Notes when a micro-batch was drawn: the first frame after its message has changed the page.
NOTE = """
window.drawn = [];
const Socket = window.WebSocket;
window.WebSocket = class extends Socket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", (event) => {
      if (typeof event.data !== "string" || !event.data.startsWith('{"t":"results"')) return;
      const { at, batch } = JSON.parse(event.data).result;
      requestAnimationFrame(() => requestAnimationFrame(() => window.drawn.push([batch, Date.now() - at])));
    });
  }
};
"""


def browser() -> str | None:
    """Return a browser of this machine; None if there is none, or nothing to drive it with."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    names = (os.environ.get("HEADRACE_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def on_screen(program: str, url: str, token: str, query: str, tabs: int, seconds: float) -> list[float]:
    """Open tabs on the page of a query; return the milliseconds from each delivery until it was drawn in each tab."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--disable-gpu", "--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        chromium = playwright.chromium.launch(executable_path=program, args=options)
        pages = []
        for _ in range(tabs):
            # windows of their own: a browser draws no tab that is hidden
            page = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.add_init_script(NOTE)
            page.goto(f"{url}/#token={token}")
            page.wait_for_selector("[data-batch]", timeout=60_000)
            page.goto(f"{url}/queries/{query}")
            page.wait_for_selector("[data-rows] tbody tr", timeout=60_000)
            pages.append(page)
        for page in pages:
            page.evaluate("window.drawn.length = 0")
        time.sleep(seconds)
        delays = [delay for page in pages for _, delay in page.evaluate("window.drawn")]
        chromium.close()
    return delays
