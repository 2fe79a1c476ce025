"""Experiments on Spark: verdicts follow from what was observed, and can come out bad."""

from __future__ import annotations

from collections import Counter

from headrace.experiments.feedback import speed_map_on_spark
from headrace.experiments.feedback.speed_map import SIMULATOR
from headrace.experiments.qos import scheduling_on_spark, shedding_on_spark
from headrace.experiments.qos.budgeted_runs import Run
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


def capacity(power, *, hiccups=()):
    """Search on a machine that does so many tuples a second, but hardly any in some of its steps."""
    steps, waiting = iter(range(100)), 0.0

    def measure(rate):
        nonlocal waiting
        here = power / 10 if next(steps) in hiccups else power
        done = min(here, rate + waiting)
        waiting += rate - done
        return shedding_on_spark.Step(done, 0.3)

    return shedding_on_spark.find_capacity(measure)


def test_the_search_for_the_capacity_finds_it_also_if_the_machine_is_busy_for_a_while():
    for found, low in (capacity(6000.0), capacity(6000.0, hiccups=(0, 1)), capacity(6000.0, hiccups=(1, 4))):
        assert abs(found - 6000.0) <= 0.15 * 6000.0
        assert low == 0.3
    assert capacity(100.0)[0] == 100.0, "below the first rate"


def scheduled(**changed):
    """Runs in which all published orders hold, but for some that are changed."""
    good = {  # latency, bytes, results of two micro-batches
        "path-capacity": (1, 1000, (50, 50)),
        "simplified": (2, 800, (40, 60)),
        "threshold": (2, 700, (40, 60)),
        "memory-optimal": (3, 300, (35, 65)),
        "segment": (4, 600, (30, 70)),
        "chain": (5, 400, (20, 80)),
    } | changed
    results = {"q": Counter({(1,): 1})}
    runs = {
        name: Run({0: size, 1: size}, {}, size, {"q": [delay]}, dict(enumerate(output)), 1.0, results=results)
        for name, (delay, size, output) in good.items()
    }
    return verdicts(scheduling_on_spark.report([(Run(results=results), runs, "9 ms")], 9))


def test_schedulers_on_spark_are_judged_by_the_published_orders():
    assert set(scheduled().values()) == {"confirmed"}
    bad = scheduled(chain=(1, 2000, (50, 50)))
    assert bad["latency: path-capacity to chain"] == "consistent", "there is no difference"
    assert bad["latency: memory-optimal to chain"] == "not confirmed"
    assert bad["memory: memory-optimal to chain"] == "confirmed"
    assert bad["memory: chain to segment"] == "not confirmed"
    assert bad["roughness: memory-optimal to chain"] == "not confirmed"
    assert scheduled(threshold=(9, 700, (50, 50)))["latency: threshold"] == "not confirmed"
    idle = scheduled(chain=(0, 0, (50, 50)))
    assert idle["latency: path-capacity to simplified"] == "not comparable", "nothing waited"


def test_schedulers_must_give_the_same_results():
    runs = {name: Run({0: 1}, {}, 1, {"q": [1]}, {0: 1}) for name in scheduling_on_spark.STRATEGIES}
    free = Run(results={"q": Counter({(1,): 1})})
    assert verdicts(scheduling_on_spark.report([(free, runs, "9 ms")], 9))["results in all"] == "not confirmed"


def test_four_experiments_run_on_spark():
    able = ["idle-waiting", "speed-map", "scheduling", "shedding"]
    assert [item.name for item in EXPERIMENTS if item.on_spark is not None] == able
