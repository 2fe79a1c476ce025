"""Throughput on a cluster of one and two workers beside one and two local cores, and what passes through the driver.

The cluster is that of tests/cluster: a master, workers of one core each and a driver, on machines of their own that are
namespaces of this one. So all of them share the cores of this machine; a cluster pays for more JVMs, and for a network.
Micro-batches take seconds, so that what each of them costs in any case is small beside its tuples. Every case runs
twice, and the second run counts: while a JVM compiles, it takes several times its later CPU time, and a cluster has
three of them. A rate is that of the median micro-batch in the steady run. `pages` are the bytes of results and
exchanged tuples that passed through the driver, `notes` those of the tasks' reports. A note for each run says for how
long none of Spark's stages ran, and how many cores of the machine were busy.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.parts.bids import Bids, write_bids
from benches.parts.ours import sums_of
from benches.parts.outcome import Outcome, check_equal
from benches.parts.query import Query, hopping, joined
from tests.cluster.cluster import Cluster
from tests.cluster.driver import Driver


@dataclass(frozen=True, slots=True)
class Place:
    """Where queries run: a local master, or executors of the cluster."""

    name: str
    cores: int
    is_local: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A query over streams of bids: rows of a micro-batch and per second of event time, by stream."""

    name: str
    query: Query
    streams: Mapping[str, tuple[int, int]]


def _no_peer(*frames: Any) -> Any:
    raise NotImplementedError("it is compared with itself in another place")


def joined_twice(seconds: int) -> Query:
    """Return bids with asks of the same bidder and offers for the same auction: the second join has another key."""
    text = (
        f"SELECT b.bidder AS bidder, a.auction AS one, o.bidder AS two FROM bids [RANGE {seconds} SECONDS] AS b "
        f"JOIN asks [RANGE {seconds} SECONDS] AS a ON b.bidder = a.bidder "
        f"JOIN offers [RANGE {seconds} SECONDS] AS o ON b.auction = o.auction"
    )
    return Query(text, _no_peer, "bidder", joined(seconds).sums)


PLACES = (
    Place("local[1]", 1, True),
    Place("1 worker", 1, False),
    Place("local[2]", 2, True),
    Place("2 workers", 2, False),
)
CASES = (
    Case("hopping count 10 s / 2 s", hopping(10, 2), {"bids": (4_000_000, 10_000)}),
    Case("window join 10 s", joined(10), {"bids": (600_000, 10_000), "asks": (600_000, 10_000)}),
    Case(
        "join by two keys, with exchange",
        joined_twice(5),
        {"bids": (300_000, 10_000), "asks": (300_000, 10_000), "offers": (3_000, 100)},
    ),
)
#: Micro-batches that do not count: processes start, and JVMs compile.
WARM = 2


def main(quick: bool) -> dict[str, Any]:
    """Measure all cases in all places."""
    figures: dict[str, Any] = {
        "bench": "scale",
        "title": "Local cores and workers of one core each, " + ("quick" if quick else "full"),
        "cases": {},
        "rows": [],
        "notes": [],
    }
    with tempfile.TemporaryDirectory(prefix="headrace-scale-") as folder:
        cluster = Cluster(Path(folder), memory="2g", executor_memory="1500m", java_options="-XX:+UseSerialGC")
        with cluster:
            figures["notes"].append(f"machines: {cluster.rack.kind}")
            data = {
                case.name: _write(cluster.common / f"data{number}", case, quick) for number, case in enumerate(CASES)
            }
            measured: dict[str, dict[str, Any]] = {case.name: {} for case in CASES}
            for number, place in enumerate(PLACES, 1):
                driver = _driver(cluster, f"driver-{number}", place)
                for case in CASES:
                    measured[case.name][place.name] = _measure(cluster, driver, place, case, data[case.name])
                cluster.switch_off(driver.machine.name)
    for case in CASES:
        _add(case, data[case.name], measured[case.name], figures)
    return figures


def _driver(cluster: Cluster, name: str, place: Place) -> Driver:
    partitions = {"spark.sql.shuffle.partitions": str(place.cores)}
    if place.is_local:
        return cluster.driver(name, partitions, master=f"local[{place.cores}]", executors=0)
    return cluster.driver(name, {**partitions, "spark.cores.max": str(place.cores)}, executors=place.cores)


def _write(folder: Path, case: Case, quick: bool) -> dict[str, Bids]:
    batches = WARM + (3 if quick else 6)
    return {
        name: write_bids(folder / name, rows * batches, per_file=rows, seed=seed, per_second=per_second)
        for seed, (name, (rows, per_second)) in enumerate(case.streams.items(), 1)
    }


def _measure(cluster: Cluster, driver: Driver, place: Place, case: Case, data: Mapping[str, Bids]) -> dict[str, Any]:
    """Run a case twice; return the figures of the second run."""
    _run(cluster, driver, place, case, data)
    busy, began = _busy(), time.monotonic()
    measured = _run(cluster, driver, place, case, data)
    return {**measured, "cores": (_busy() - busy) / (time.monotonic() - began)}


def _busy() -> float:
    """Return the seconds for which cores of this machine have worked, all together."""
    user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _run(cluster: Cluster, driver: Driver, place: Place, case: Case, data: Mapping[str, Bids]) -> dict[str, Any]:
    """Run a case; return its figures with the sums of its results."""
    with tempfile.TemporaryDirectory(dir=cluster.common) as folder:
        out = Path(folder) / "out"
        streams = [bids.stream(name) for name, bids in data.items()]
        query = f"CREATE QUERY q AS {case.query.text} INTO FILES (path '{out}')"
        measured: dict[str, Any] = driver.call(
            "benches.parts.scaling:measure",
            checkpoint=str(Path(folder) / "checkpoint"),
            text=";\n".join([*streams, "ALTER SYSTEM SET grid = 'off'", query]),
            limit=max(bids.per_file for bids in data.values()),
            buckets=place.cores,
            seconds=1200.0,
        )
        return {**measured, "sums": sums_of(out, case.query)}


def _add(case: Case, data: Mapping[str, Bids], measured: Mapping[str, dict[str, Any]], figures: dict[str, Any]) -> None:
    """Add the rows of a case, after its results have been compared."""
    outcomes = {
        place: Outcome(figure["seconds"], (tuple(figure["batch_ms"]),), {"q": figure["sums"]})
        for place, figure in measured.items()
    }
    for place in outcomes:
        check_equal(f"{case.name}, {place}", outcomes["local[1]"], outcomes[place])
    part = sum(bids.per_file for bids in data.values())
    rows = sum(bids.rows for bids in data.values())
    rates = {place: 1000 * part / outcome.median_ms(WARM) for place, outcome in outcomes.items()}
    figures["cases"][case.name] = {"rates": rates, "rows": rows, "measured": measured}
    peers = {place: rate for place, rate in rates.items() if place != "2 workers"}
    figures["rows"].append(
        {"case": case.name, "ours": rates["2 workers"], "peers": peers, "unit": "tuples/s"}
        | _against("local[2]", 0.85, rates)
    )
    figures["rows"].append(
        {
            "case": f"{case.name}: beside one worker",
            "ours": rates["2 workers"],
            "peers": {"1 worker": rates["1 worker"]},
            "unit": "tuples/s",
        }
        | _against("1 worker", 1.6, rates)
    )
    for what in ("pages", "notes"):
        figures["rows"].append(
            {
                "case": f"{case.name}: {what} through the driver",
                "ours": measured["2 workers"][what] / rows,
                "peers": {place: measured[place][what] / rows for place in peers},
                "unit": "B/tuple",
            }
        )
    for place, figure in measured.items():
        alone, whole = statistics.median(figure["driver_ms"]), statistics.median(figure["batch_ms"])
        figures["notes"].append(
            f"{case.name}, {place}: micro-batches of {part:,} tuples, median {whole:.0f} ms, in {alone:.0f} ms of "
            f"them no stage ran; {figure['seconds']:.1f} s with the start of the query; {figure['cores']:.2f} cores"
        )


def _against(place: str, target: float, rates: Mapping[str, float]) -> dict[str, Any]:
    """Return how many times as fast as in another place two workers are, and whether that is enough."""
    ratio = rates["2 workers"] / rates[place]
    return {"ratio": ratio, "target": target, "verdict": "met" if ratio >= target else "missed"}
