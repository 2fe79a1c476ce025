"""A Spark cluster on this machine, which the tests of this folder share."""

import inspect
import shutil

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.first_process import end_leftovers
from tests.cluster.machine import until
from tests.conftest import TOLD


def pytest_itemcollected(item):
    """Mark the tests, before pytest chooses by marks."""
    if "tests/cluster/" in str(item.path):
        item.add_marker(pytest.mark.cluster)
        item.add_marker(pytest.mark.timeout(600))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Keep the order of the tests, those with other drivers last: the next test would have to wait for its own."""
    ours = [item for item in items if "tests/cluster/" in str(item.path)]
    ordered = iter(sorted(ours, key=lambda item: (_needs_another_driver(item), *item.reportinfo()[:2])))
    items[:] = [next(ordered) if item in ours else item for item in items]


def _needs_another_driver(item):
    return "drivers" in inspect.signature(item.function).parameters


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    end_leftovers()
    with Cluster(tmp_path_factory.mktemp("cluster"), hooks=True) as cluster:
        request.config.stash.setdefault(TOLD, []).append(f"machines of the test cluster: {cluster.rack.kind}")
        yield cluster


class Drivers:
    """The driver that tests share, as long as it works and has the settings that they need."""

    def __init__(self, cluster):
        self.cluster, self.driver, self.conf = cluster, None, {}
        self.count = 0

    def get(self, conf, executors=None):
        """Return a driver with these settings that runs nothing, with all its executors, or so many."""
        number = len(self.cluster.workers) if executors is None else executors
        if self.driver is not None and (conf != self.conf or not self.is_idle()):
            self.lose()
        if self.driver is None:
            self.count, self.conf = self.count + 1, conf
            self.driver = self.cluster.driver(f"driver-{self.count}", conf, executors=number)
        until(lambda: len(self.driver.call("executors")) == number, what="all executors")
        return self.driver

    def lose(self):
        """Switch off the machine of the driver."""
        self.cluster.switch_off(self.driver.machine.name)
        self.driver = None

    def is_idle(self):
        return self.driver.process.poll() is None and not self.driver.is_busy and not self.driver.call("running")


@pytest.fixture(scope="session")
def drivers(cluster):
    return Drivers(cluster)


@pytest.fixture
def ready_cluster(cluster):
    """The cluster with all its workers, and without marks."""
    for folder in ("marks", "hold", "held", "load", "points"):
        shutil.rmtree(cluster.common / folder, ignore_errors=True)
    for name in cluster.workers:
        if not cluster.is_on(name):
            cluster.switch_on(name)
    return cluster


@pytest.fixture
def driver(ready_cluster, drivers):
    return drivers.get({})
