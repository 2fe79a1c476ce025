"""What all tests share: options, and how Hypothesis runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("headrace", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("headrace")

# Statements of the tests name code of the examples, of `headrace.testing` and of modules that they write.
os.environ["HEADRACE_ALLOW_PYTHON"] = "*"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected part of golden scripts with what came out"
    )
    parser.addoption(
        "--losses", type=int, default=1, help="how often the test cluster loses a machine at the worst moment"
    )
    parser.addoption("--whole-corpus", action="store_true", help="run all golden scripts and queries on the cluster")


@pytest.fixture(autouse=True, scope="session")
def no_fsync() -> Iterator[None]:
    """Do not wait for the disk in the tests of this process: a killed process, unlike a power cut, loses nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
