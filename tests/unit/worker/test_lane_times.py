import threading
from pathlib import Path

from headrace.worker.lane_times import LaneTimes, forget_notes


def test_what_a_task_tells_others_can_ask(tmp_path: Path) -> None:
    times = LaneTimes(tmp_path / "lanes")
    assert times.ask(7, "split", reading=1.0) == (False, None), "without patience nobody waits"
    times.tell(7, "split", -3)
    times.tell(7, "empty", None)
    other = LaneTimes(tmp_path / "lanes", patience=1.0)
    assert other.ask(7, "split", reading=1.0) == (True, -3)
    assert other.ask(7, "empty", reading=1.0) == (True, None)


def test_a_task_waits_for_another_that_is_still_reading(tmp_path: Path) -> None:
    times = LaneTimes(tmp_path / "lanes", patience=100.0)
    telling = threading.Thread(target=times.tell, args=(7, "split", 5))
    answer: list[tuple[bool, int | None]] = []
    asking = threading.Thread(target=lambda: answer.append(times.ask(7, "split", reading=1.0)))
    asking.start()
    telling.start()
    asking.join()
    telling.join()
    assert answer == [(True, 5)]


def test_times_of_finished_micro_batches_are_deleted(tmp_path: Path) -> None:
    times = LaneTimes(tmp_path / "lanes")
    for time in (-5, 6, 7, 8):
        times.tell(time, "split", 0)
    forget_notes(tmp_path / "lanes", 7)
    assert [times.ask(time, "split", 0.0)[0] for time in (-5, 6, 7, 8)] == [False, False, False, True]
