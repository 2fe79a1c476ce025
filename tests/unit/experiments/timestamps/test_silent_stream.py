"""What is judged of a run on Spark; the run itself needs Java and minutes."""

from headrace.experiments.experiment import Verdict
from headrace.experiments.timestamps.idle_waiting_on_spark import report
from headrace.experiments.timestamps.silent_stream import Seen, Watched, late, late_alone, punctual

SECONDS = 80


def watched(ours: float, spark: float, *, lost: int = 0) -> Watched:
    """Five tuples a second; every window comes so long after its end."""
    written = tuple(1000 + number * 0.2 for number in range(5 * SECONDS))
    ends = [1001.0 + second for second in range(SECONDS)]
    mine = Seen(dict.fromkeys(ends, 5), dict.fromkeys(ends, ours))
    mine.counts[ends[0]] += 2 - lost  # the warm-up's
    return Watched(punctual(20.0), mine, Seen(dict.fromkeys(ends, 5), dict.fromkeys(ends, spark)), written, 0.3)


def verdicts(found: Watched) -> list[Verdict]:
    return [finding.verdict for finding in report([found]).findings]


def test_ours_at_once_and_plain_spark_waiting_is_what_the_paper_says() -> None:
    assert verdicts(watched(0.4, 9.0)) == ["confirmed", "confirmed", "consistent", "confirmed"]


def test_waiting_or_losing_tuples_is_not_confirmed() -> None:
    assert verdicts(watched(12.0, 0.4, lost=1)) == ["not confirmed"] * 4


def test_windows_that_never_came_are_as_late_as_the_run_is_long() -> None:
    found = watched(0.4, 9.0)
    for end in list(found.spark.delays)[3:]:
        del found.spark.delays[end], found.spark.counts[end]
    assert found.missing(found.spark) == SECONDS - 31
    assert found.median(found.spark) == found.p95(found.spark) == found.seconds
    assert found.median(found.ours) == 0.4


def test_one_window_in_ten_that_is_late_shows_in_the_percentile_only() -> None:
    found = watched(0.4, 9.0)
    for end in list(found.spark.delays)[::10]:
        found.spark.delays[end] = 30.0
    assert found.median(found.spark) == 9.0
    assert found.p95(found.spark) == 30.0


def test_a_count_may_say_itself_when_it_came() -> None:
    seen = Seen()
    seen.take(1000.0, 4, 1000.5)
    seen.take(1000.0, 1, 1007.0)
    assert seen.counts == {1000.0: 5}
    assert seen.delays == {1000.0: 0.5}


def test_only_windows_well_within_the_run_count() -> None:
    assert len(watched(0.4, 9.0).delays(watched(0.4, 9.0).ours)) == SECONDS - 31


def test_cases_say_what_they_promise() -> None:
    assert late(5.0, 3).stamps("fast") == late_alone(5.0, 3).stamps("slow") == "TIMESTAMP BY at SKEW 3 SECONDS"
    assert late_alone(5.0, 3).behind("fast") == 1
    assert punctual(20.0).stamps("slow") == "TIMESTAMP INTERNAL"
    assert punctual(20.0).name == "slow stream every 20 s, punctual"
