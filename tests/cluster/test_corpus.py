"""What runs elsewhere in the tests runs on a cluster, too, and gives the same."""

import json

import pytest
from tests.cluster.jobs import APPLICATIONS
from tests.cluster.machine import ROOT
from tests.spark.crash_case import multiset

from headrace.session import Session

#: Instead of tuples that come with the clock: the first ones of a stream that began long ago.
BOUNDED = "FROM GENERATOR (rows 3000, speed 20, start '2026-01-01 00:00:00', "


@pytest.fixture
def whole_corpus(request):
    return request.config.getoption("--whole-corpus")


@pytest.fixture
def folder(cluster, request):
    made = cluster.common / "".join(filter(str.isalnum, request.node.name))
    made.mkdir()
    return made


def test_the_first_example_gives_what_it_gives_locally(cluster, driver, folder):
    text = (ROOT / "examples" / "first.sql").read_text().replace("FROM GENERATOR (", BOUNDED)
    into = " INTO FILES (path '{}', format 'json');"
    create = text.replace("SELECT item", "CREATE QUERY first AS SELECT item").rstrip().removesuffix(";")
    driver.call("run", checkpoint=str(folder / "checkpoint"), text=create + into.format(folder / "cluster"))
    with Session(folder / "local-checkpoint", host="local") as session:
        session.execute(create + into.format(folder / "local"))
        session.drain()
    assert rows(folder / "cluster") == rows(folder / "local") != []


def rows(folder):
    lines = [line for path in folder.glob("*.json*") for line in path.read_text().splitlines()]
    return multiset(map(json.loads, lines))  # rounded: partial sums are added in another order


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_finds_what_was_planted(driver, folder, name, whole_corpus):
    if name != "nfmi" and not whole_corpus:
        pytest.skip("one application is enough without --whole-corpus")
    checkpoint, here = str(folder / "checkpoint"), str(folder / "here")
    assert driver.call("tests.cluster.jobs:application", name=name, checkpoint=checkpoint, folder=here) == []


@pytest.mark.parametrize("number", [11, 12, 13])
def test_random_queries_agree_with_the_oracle(driver, folder, number, whole_corpus):
    if number != 11 and not whole_corpus:
        pytest.skip("one set of queries is enough without --whole-corpus")
    compared = driver.call(
        "tests.cluster.jobs:oracle", checkpoint=str(folder), number=number, per_shape=3 if whole_corpus else 1
    )
    assert compared["wrong"] == []
    assert compared["nonempty"] >= compared["queries"] // 3


def test_golden_queries_give_the_same(driver, folder):
    assert driver.call("tests.cluster.jobs:golden", checkpoint=str(folder)) == []
