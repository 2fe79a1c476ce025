"""`headrace stop` waits for the checkpoint of the server that it stops, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.serving import remote
from headrace.client.remote import STATE, URL
from headrace.session import Session


class _Server:
    """A server that is told to stop."""

    def __init__(self) -> None:
        self.stops = 0

    def stop_server(self) -> None:
        self.stops += 1


def test_a_server_elsewhere_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = _Server()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL, "http://127.0.0.1:9")
    monkeypatch.setattr(remote, "connect", lambda *_: server)
    with Session(STATE, host="local") as session:
        session.own()  # a deployment that happens to have the name of the default
        remote.stop(url=None, checkpoint=STATE, token_file=None)
    assert server.stops == 1
    assert "the server is stopping" in capsys.readouterr().out
