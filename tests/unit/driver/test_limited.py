"""A call of users' code that does not return as it should counts as failed."""

from __future__ import annotations

import sys

import pytest

from headrace.driver.rules.functions import Limited


@pytest.mark.parametrize("threads", [True, False])
def test_a_function_that_ends_the_process_has_failed(threads: bool) -> None:
    assert Limited(threads=threads).call("act", 10, lambda: sys.exit(3)) == "SystemExit: 3"


class Mute(Exception):
    """An error whose message cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Mute(), "Mute: its message cannot be read (RuntimeError)"),
        (ValueError("caf\udce9"), "ValueError: caf\\udce9"),
    ],
)
def test_an_error_that_cannot_be_written_is_a_failure(threads: bool, error: Exception, text: str) -> None:
    def act() -> None:
        raise error

    assert Limited(threads=threads).call("act", 10, act) == text
