"""How often a server tells of itself, and when it stops."""

from __future__ import annotations

import threading

import pytest

from headrace.server import beats
from headrace.server.beats import Beats


def test_beats_end_at_once_though_the_next_one_is_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "SHORTEST", 3600.0)
    heard = threading.Event()
    told = Beats(lambda: ("running", None), dict, lambda beat, figures: heard.set())
    told.start()
    told.nudge()
    assert heard.wait(20)
    told.close()
    assert not told._thread.is_alive()
