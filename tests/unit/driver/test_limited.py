"""A call of users' code that does not return as it should counts as failed."""

from __future__ import annotations

import sys

import pytest

from headrace.driver.rules.functions import Limited


@pytest.mark.parametrize("threads", [True, False])
def test_a_function_that_ends_the_process_has_failed(threads: bool) -> None:
    assert Limited(threads=threads).call("act", 10, lambda: sys.exit(3)) == "SystemExit: 3"
