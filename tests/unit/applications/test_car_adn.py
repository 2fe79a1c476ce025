"""Accidents on a motorway: exactly those that were planted are notified, and every condition of the query matters."""

import itertools
from pathlib import Path

import pytest

from headrace.applications.application import Check, Results, run
from headrace.applications.car_adn.application import CarAdn
from headrace.applications.car_adn.traffic import traffic
from headrace.session import Session

SMALL = CarAdn(accidents=4, cars=6)


class Changed(CarAdn):
    """The same with another script."""

    changes: tuple[tuple[str, str], ...] = ()

    @property
    def script(self) -> str:
        text = super().script
        for old, new in self.changes:
            assert old in text
            text = text.replace(old, new)
        return text


def outcome(application: CarAdn, folder: Path, seed: int, buckets: int = 2) -> tuple[Results, list[Check]]:
    with Session(host="local", buckets=buckets) as session:
        results = run(application, session, folder, seed, timeout=60)
    return results, list(application.checks(seed, folder, results))


@pytest.mark.parametrize(("seed", "buckets"), [(1, 1), (2, 3)])
def test_every_accident_is_notified_once_and_nothing_else_is(tmp_path: Path, seed: int, buckets: int) -> None:
    results, checks = outcome(SMALL, tmp_path, seed, buckets)
    assert [check for check in checks if not check.holds] == []
    assert len(results["notify"]) == 5, "four, and one in the same place later"
    assert all(row["stopped"] != row["slowed"] for row in results["notify"])
    assert len(list((tmp_path / "out" / "notified").glob("*.json"))) >= 1


@pytest.mark.parametrize(
    "changes",
    [
        ((" AND immobile.lane = slowing.lane", ""),),
        ((" AND immobile.dir = slowing.dir", ""),),
        ((" WITHIN 10 MINUTES", ""),),
        (("SEQUENCE", "AND"), ("immobile BY carId", "immobile BY carId, slowing BY carId")),
        (("ROWS 4 SLIDE 1", "ROWS 3 SLIDE 1"),),
        (("\n    AND immobile.carId <> slowing.carId", ""),),
        (("HAVING count(*) = 1;\n\nCREATE RULE", ";\n\nCREATE RULE"),),
    ],
    ids=["lane", "direction", "time", "order", "reports", "car", "once"],
)
def test_without_one_of_its_conditions_it_would_notify_what_is_no_accident(
    tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    changed = type("Other", (Changed,), {"changes": changes})(accidents=2, cars=0)
    _, checks = outcome(changed, tmp_path, 5)
    assert not checks[0].holds


def test_the_same_seed_gives_the_same_traffic_and_another_one_another() -> None:
    assert traffic(1, accidents=2, cars=3) == traffic(1, accidents=2, cars=3)
    assert traffic(1, accidents=2, cars=3).accidents != traffic(2, accidents=2, cars=3).accidents


def test_reports_come_at_most_four_seconds_late() -> None:
    reports = traffic(3).reports
    newest = 0.0
    for report in reports:
        assert report.at >= newest - 4
        newest = max(newest, report.at)
    assert any(one.at > other.at for one, other in itertools.pairwise(reports)), "they are not in order"
