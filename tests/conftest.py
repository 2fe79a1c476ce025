"""What all tests share: options, and how Hypothesis runs."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("headrace", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("headrace")

gc.disable()  # until all tests are collected: what is made until then stays

# Statements of the tests name code of the examples, of `headrace.testing` and of modules that they write.
os.environ["HEADRACE_ALLOW_PYTHON"] = "*"


#: Tests on Spark that start deployments of their own in order to kill them: any process may run any of them. Those that
#: take longest are first, so that no process is left with a long one at the end.
KILLING = (
    "test_migration_crashes",
    "test_parcel_crashes",
    "test_chaos",
    "test_crashes",
    "test_rule_crashes",
    "test_postgres_crashes",
    "test_designs_after_a_kill",
    "test_punctuation_on_spark",
    "test_server_on_spark",
    "test_replacing_on_spark",
    "test_promises_on_spark",
    "test_killed_at_random_moments",
    "test_cores",
)


def group_of(nodeid: str) -> str:
    """Return the group of a test: one process runs a whole group, whose tests share a Spark, a broker or a cluster."""
    if nodeid.startswith("tests/browser/"):
        return nodeid.partition("::")[0]
    return nodeid if rank(nodeid) < len(KILLING) else nodeid.partition("/test_")[0]


def rank(nodeid: str) -> int:
    """Return the place of a test among those that kill; the others come after them."""
    return next(
        (place for place, name in enumerate(KILLING) if f"{name}." in nodeid or f":{name}" in nodeid), len(KILLING)
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a process ask at once whether a test has run before.

    With `--reruns` each process asks the first one before each test. It sends two small messages without an answer
    between them, and TCP holds the second one back for up to 40 ms by default: a third of the time of the fast tests.
    """
    asked = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if isinstance(asked, socket.socket):
        asked.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests and modules stay until the end; the collector need not look at them
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Deal the groups to the processes, those of many tests first, if tests are run by `--dist loadscope`."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected part of golden scripts with what came out"
    )
    parser.addoption(
        "--losses", type=int, default=1, help="how often the test cluster loses a machine at the worst moment"
    )
    parser.addoption(
        "--state-megabytes", type=int, default=8, help="how much state a bucket has that moves between machines"
    )
    parser.addoption("--all-points", action="store_true", help="die at every point of a change, not at some")
    parser.addoption("--whole-corpus", action="store_true", help="run all golden scripts and queries on the cluster")


#: What tests tell at the end of a run.
TOLD = pytest.StashKey[list[str]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:  # of a process that runs some tests
        output["told"] = session.config.stash.get(TOLD, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash.setdefault(TOLD, []).extend(getattr(node, "workeroutput", {}).get("told", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for told in config.stash.get(TOLD, []):
        terminalreporter.write_line(told)


@pytest.fixture(autouse=True, scope="session")
def no_fsync() -> Iterator[None]:
    """Do not wait for the disk in the tests of this process: a killed process, unlike a power cut, loses nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
