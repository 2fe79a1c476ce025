"""Products in cases: what the sequences of readings say is what was packed."""

import dataclasses
from pathlib import Path

import pytest

from headrace.applications.application import run
from headrace.applications.rfid.application import Rfid
from headrace.applications.rfid.warehouse import warehouse
from headrace.session import Session


@pytest.mark.parametrize(("seed", "buckets"), [(1, 1), (2, 3)])
def test_each_product_is_found_in_its_case_and_each_loss_is_told(tmp_path: Path, seed: int, buckets: int) -> None:
    application = Rfid(cases=15)
    with Session(host="local", buckets=buckets) as session:
        results = run(application, session, tmp_path, seed, timeout=60)
    checks = application.checks(seed, tmp_path, results)
    assert [check for check in checks if not check.holds] == []
    assert results["missing"]
    fewer = {**results, "missing": results["missing"][1:]}
    assert not application.checks(seed, tmp_path, fewer)[0].holds


def test_some_products_are_read_at_the_instant_of_the_next_case() -> None:
    made = warehouse(1)
    cases = {(at, line) for at, line, _ in made.readings["cases"]}
    assert sum((at, line) in cases for at, line, _ in made.readings["products"]) > 5


def test_the_same_seed_gives_the_same_readings() -> None:
    assert dataclasses.asdict(warehouse(4)) == dataclasses.asdict(warehouse(4)) != dataclasses.asdict(warehouse(5))
