"""Experiments on Spark: verdicts follow from what was observed, and can come out bad."""

from __future__ import annotations

from headrace.experiments.feedback import speed_map_on_spark
from headrace.experiments.feedback.speed_map import SIMULATOR
from headrace.experiments.qos import shedding_on_spark
from headrace.experiments.qos.shedding import LOADS
from headrace.experiments.qos.shedding_on_spark import Moment
from headrace.experiments.table import EXPERIMENTS


def verdicts(outcome):
    return {finding.what: finding.verdict for finding in outcome.findings}


def speed_map(counts, seconds=(4.0, 3.0, 2.0, 1.0)):
    runs = {
        case: speed_map_on_spark.Ran(time, work) for (case, work), time in zip(counts.items(), seconds, strict=True)
    }
    return verdicts(speed_map_on_spark.report(runs, 18))


def test_counts_of_the_speed_map_are_compared_with_the_simulator_and_times_with_nothing():
    found = speed_map(SIMULATOR)
    assert {found[f"{case}: tuples averaged"] for case in SIMULATOR} == {"confirmed"}
    assert found["each further reach saves work"] == "confirmed"
    assert {found[f"{case}: time saved"] for case in ("F1", "F2", "F3")} == {"not comparable"}


def test_feedback_that_saves_nothing_is_not_confirmed():
    found = speed_map(dict.fromkeys(SIMULATOR, SIMULATOR["F0"]))
    assert found["F3: tuples filtered"] == "not confirmed"
    assert found["each further reach saves work"] == "not confirmed"


def shed(without, with_promise, dropped=0.2):
    def ran(above, share):
        latencies = [above if load > 1 else 0.5 for load in LOADS]
        moments = [Moment(10.0 * phase + 5, phase, 5.0, latency) for phase, latency in enumerate(latencies)]
        return shedding_on_spark.Ran(tuple(moments), share)

    runs = {"no promise": ran(without, 0.0), "a promise": ran(with_promise, dropped)}
    return verdicts(shedding_on_spark.report(runs, 1000.0, 2.0, 10.0))


def test_shedding_is_judged_by_the_promise():
    good, bad = shed(20.0, 1.5), shed(20.0, 30.0, dropped=0.7)
    assert set(good.values()) == {"confirmed"}
    assert bad["mean latency above the capacity, with shedding"] == "not confirmed"
    assert bad["moments within the promise, with shedding"] == "not confirmed"
    assert bad["tuples dropped"] == "not confirmed"
    idle = shed(1.0, 1.0)
    assert idle["mean latency above the capacity, with shedding"] == "not comparable", "nothing had to be shed"


def test_three_experiments_run_on_spark():
    assert [item.name for item in EXPERIMENTS if item.on_spark is not None] == ["idle-waiting", "speed-map", "shedding"]
