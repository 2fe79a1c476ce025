"""A browser, and servers for it to look at; `tests/browser/setup` fetches what is missing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Seconds after which something has not happened; far more than it takes.
PATIENCE = 30.0


#: Remembers what the content security policy refused.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  const where = event.composedPath()[0]?.outerHTML?.slice(0, 200) ?? "";
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile} ${event.sample} ${where}`);
});
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in str(item.path):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(180))


class Served:
    """`headrace serve` on the local host, in a process of its own."""

    def __init__(self, folder: Path, statements: str, port: int = 0) -> None:
        self.checkpoint, self._script, self._port = folder / "state", folder / "app.sql", port
        self._script.write_text(statements)
        self._log = folder / "output.txt"
        self.address = self.token = ""
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "headrace", "serve", str(self._script), "--host", "local", "--buckets", "2"]
        command += ["--checkpoint", str(self.checkpoint), "--bind", f"127.0.0.1:{self._port}"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while "ready" not in (said := self._log.read_text()):
            assert time.monotonic() < deadline, said
            assert self._process.poll() is None, said
            assert "failed" not in said, said
            time.sleep(0.05)
        url = next(line for line in said.splitlines() if line.startswith("http"))
        self.address, _, self.token = url.partition("/#token=")
        self._port = int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def url(self) -> str:
        return f"{self.address}/#token={self.token}"


class Visitor:
    """A page, and everything that must not happen on it."""

    def __init__(self, page: Any, served: Served) -> None:
        self.page, self.served = page, served
        self.faults: list[str] = []
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request.url))
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def enter(self, path: str = "/") -> None:
        """Open the address that the server printed, then a page."""
        self.page.goto(self.served.url)
        self.page.wait_for_selector("[data-batch]")
        if path != "/":
            self.go(path)

    def go(self, path: str) -> None:
        """Go to a page without loading everything again, as a link does."""
        self.page.evaluate(
            "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')) }", path
        )

    def batch(self) -> int:
        return int(self.page.get_attribute("[data-batch]", "data-batch"))

    def until(self, is_so: str, argument: Any = None) -> Any:
        """Wait until an expression in the page is true."""
        return self.page.wait_for_function(is_so, arg=argument, timeout=PATIENCE * 1000)

    def patiently(self, look: Callable[[], Any]) -> Any:
        """Look until there is something."""
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            assert time.monotonic() < deadline, "it has not happened"
            time.sleep(0.1)
        return found

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" and "ERR_CONNECTION_REFUSED" not in text and "401" not in text:
            self.faults.append(f"console: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.served.address, self.served.address.replace("http", "ws"), "blob:", "data:")):
            self.faults.append(f"another host: {url}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser that lives as long as the tests."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: tests/browser/setup")
    names = [name for name in (os.environ.get("HEADRACE_TEST_BROWSER"), *BROWSERS) if name]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on the PATH: tests/browser/setup installs one where it may")
    if subprocess.run([sys.executable, ROOT / "web" / "build", "--check"], capture_output=True).returncode:
        pytest.skip("the console is not built from these sources: web/build")
    with api.sync_playwright() as playwright:
        options = ["--disable-gpu", "--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with streams, promises, events, rules and names that look like HTML, which tests share."""
    served = Served(tmp_path_factory.mktemp("traffic"), (Path(__file__).parent / "traffic.sql").read_text())
    yield served
    served.stop()


@contextmanager
def visiting(chromium: Any, served: Served, **options: Any) -> Iterator[Visitor]:
    """Open a page of a new browser profile, and check at the end that nothing went wrong on it."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(PATIENCE * 1000)
    context.add_init_script(WATCH)
    visitor = Visitor(context.new_page(), served)
    try:
        yield visitor
        violations = visitor.page.evaluate("window.violations")
        assert violations == []
        assert visitor.faults == []
    finally:
        context.close()


@pytest.fixture
def visitor(chromium: Any, traffic: Served) -> Iterator[Visitor]:
    with visiting(chromium, traffic) as visitor:
        yield visitor
