"""The console's files: the types that it is written against, and what the server gives out of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.server import pages

ROOT = Path(__file__).resolve().parents[3]
WEB = ROOT / "web"


def test_the_types_of_the_console_are_those_of_the_views():
    checked = subprocess.run([sys.executable, WEB / "types", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_lock_file_has_hashes_and_no_addresses():
    lock = (WEB / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", lock)
    packages = lock.count('"node_modules/')
    assert lock.count('"integrity": "sha512-') == packages


def test_nothing_becomes_html_unescaped():
    sources = [*WEB.glob("src/**/*.svelte"), *WEB.glob("src/**/*.ts")]
    assert len(sources) > 30
    for source in sources:
        text = source.read_text()
        assert not re.search(r"\{@html|innerHTML|insertAdjacentHTML|document\.write|\beval\(", text), source
        assert not re.search(r"""["'`(]https?://(?!example\.org)""", text), source


@pytest.fixture
def dist(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DIST", tmp_path / "dist")
    monkeypatch.setattr(pages, "REASON", tmp_path / "reason.txt")
    (tmp_path / "dist" / "assets").mkdir(parents=True)
    (tmp_path / "dist" / "index.html").write_text("<!doctype html>console")
    (tmp_path / "dist" / "assets" / "a-1.js").write_text("1")
    return tmp_path / "dist"


def test_every_address_of_the_console_is_its_first_page(shared, dist):
    for path in ("/", "/graph", "/queries/best", "/streams/headrace.shed", "/queries/%3Cimg%3E"):
        answer = shared.ask("GET", path)
        assert (answer.status, answer.body) == (200, b"<!doctype html>console"), path
    assert shared.ask("GET", "/assets/a-1.js").headers["cache-control"].endswith("immutable")
    assert shared.ask("GET", "/assets/b-2.js").status == 404
    assert shared.ask("GET", "/../reason.txt").body == b"<!doctype html>console"


def test_without_a_console_the_plain_page_says_why(shared, dist):
    (dist / "index.html").unlink()
    answer = shared.ask("GET", "/")
    assert (answer.status, answer.headers["location"]) == (303, "plain")
    assert b"web/build in a checkout builds it" in shared.ask("GET", "/plain").body
    (dist.parent / "reason.txt").write_text("npm install failed: <no> connection")
    assert b"npm install failed: &lt;no&gt; connection" in shared.ask("GET", "/plain").body
