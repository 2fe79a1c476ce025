"""The page of the demo: a server beside a session that runs already, until the demo ends."""

from __future__ import annotations

import io
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from headrace.cli.demo import served
from headrace.cli.demo.demo import SpeedMap
from headrace.cli.demo.served import on_page
from headrace.cli.demo.viewport import Viewport
from headrace.cli.output import screen
from headrace.session import Session

SQL = "CREATE STREAM bids (item INT) FROM MEMORY; CREATE QUERY q AS SELECT item FROM bids INTO MEMORY"


def ask(address: str, path: str) -> dict[str, object]:
    url, _, token = address.partition("/#token=")
    request = urllib.request.Request(f"{url}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_the_page_shows_the_session_and_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken, Session(tmp_path, host="local") as session:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(served, "PORT", taken.getsockname()[1])  # another port will do
        session.execute(SQL)
        with on_page(session) as page:
            assert page.address is not None
            assert ask(page.address, "/queries/q")["name"] == "q"
            page.execute("STOP QUERY q")
            assert str(ask(page.address, "/queries/q")["figures"]["state"]).startswith("off")  # type: ignore[index]
        with pytest.raises(urllib.error.URLError):
            ask(page.address, "/queries/q")


def test_without_the_packages_the_demo_goes_on_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.extras.is_installed", lambda module: module != "starlette")
    with Session(tmp_path, host="local") as session, on_page(session) as page:
        assert page.address is None
        page.execute("CREATE STREAM bids (item INT) FROM MEMORY")


def test_a_viewport_moves_by_the_statements_of_the_page() -> None:
    given: list[str] = []
    picture = SpeedMap(Viewport())
    picture.move_by(given.append)
    assert picture.display is not None
    picture.display._execute("ASSUME")
    assert given == ["ASSUME"]
    picture = SpeedMap()
    picture.move_by(given.append)
    assert picture.display is None


@pytest.mark.parametrize("has_results", [False, True])
def test_the_address_of_the_page_is_whole_in_a_narrow_terminal(has_results: bool) -> None:
    picture, file = SpeedMap(), io.StringIO()
    picture.address = "http://127.0.0.1:4280/#token=" + "x" * 43
    if has_results:
        picture.take_speeds(0, [{"segment": 1, "speed": 50.0, "n": 3, "window_end": 10_000_000}])
    assert not screen.soft_wrap
    console = Console(file=file, width=40)
    with Live(picture.draw(40), console=console, auto_refresh=False):
        pass
    assert picture.address in "".join(line.rstrip() for line in file.getvalue().splitlines())
