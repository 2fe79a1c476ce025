"""Figures over time: rings that go on after a restart, and do not fail on what they find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.server.conftest import Client, end, serve

from headrace.server.history import FILE, MOST_KEPT, RINGS, History, _KeptRing, _Ring
from headrace.storage import sealed

NOW = 1_800_000_000.0


def filled(step: int, length: int, **values: float) -> _Ring:
    ring = _Ring(step, length)
    for number in range(5):
        ring.put(NOW + number * step, {name: value + number for name, value in values.items()})
    return ring


def values(ring: _Ring, name: str) -> list[float]:
    return ring.rows[name][ring.order(0)].tolist()


@pytest.mark.parametrize(("step", "length"), RINGS)
def test_a_ring_goes_on_after_what_was_kept(step: int, length: int) -> None:
    old = filled(step, length, load=1.0)
    new = _Ring(step, length)
    new.restore(old.kept(), NOW + 20 * step)
    assert values(new, "load") == [1, 2, 3, 4, 5]
    new.put(NOW + 20 * step, {"load": 9.0})
    assert values(new, "load")[-1] == 9.0
    assert list(np.diff(new.times[new.order(0)])) == [step] * 4 + [16 * step]


def test_what_is_older_than_a_ring_is_left_out() -> None:
    old, new = filled(1, 900, load=1.0), _Ring(1, 900)
    new.restore(old.kept(), NOW + 902)
    assert values(new, "load") == [4, 5]  # NOW + 3 and NOW + 4


def test_a_ring_of_the_future_does_not_stop_the_clock() -> None:
    old, new = filled(1, 900, load=1.0), _Ring(1, 900)
    new.restore(old.kept(), NOW - 3600)
    new.put(NOW - 3600, {"load": 7.0})
    assert values(new, "load") == [7.0]


def test_of_too_many_series_those_of_operators_are_left_out_first() -> None:
    many = {f"vertex.v{number}.busy": 0.5 for number in range(MOST_KEPT + 50)}
    kept = filled(1, 900, **many, load=1.0).kept()
    assert len(kept.names) == MOST_KEPT
    assert kept.names[0] == "load"


@pytest.mark.parametrize("content", [b"", b"x", b"\x91\x94\x01\xc4\x01x\x90\xc4\x00", b"\xc1" * 100])
def test_a_damaged_file_is_left_out(tmp_path: Path, content: bytes) -> None:
    sealed.replace(tmp_path / FILE, content)
    assert History(tmp_path).view((), 1, 0).series == ()
    (tmp_path / FILE).write_bytes(content + b"\n#00000000\n")
    assert History(tmp_path).view((), 1, 0).series == ()


def test_a_ring_of_another_length_is_not_mixed_up() -> None:
    kept = _KeptRing(1, np.arange(3, dtype=np.int64).tobytes(), ("load",), np.zeros(2, dtype=np.float32).tobytes())
    with pytest.raises(ValueError, match="reshape"):
        _Ring(1, 900).restore(kept, NOW)


@pytest.mark.slow
def test_figures_from_before_a_restart_are_there(tmp_path: Path) -> None:
    first = serve(tmp_path)
    client = Client(first)
    client.push({"item": 1, "price": 200.0, "at": "2026-01-01T00:00:00Z"})
    client.until(lambda: client.get("history?series=stream.bids.rate")["series"])
    before = client.get("history?series=stream.bids.rate")["times"]
    end(first)
    second = serve(tmp_path, text="")
    try:
        after = Client(second).get("history?series=stream.bids.rate")
        assert after["times"][: len(before)] == before
        assert [series["name"] for series in after["series"]] == ["stream.bids.rate"]
    finally:
        end(second)
