"""A Python process of Spark that does not answer is started again, a few times."""

from __future__ import annotations

import logging

import pytest

from headrace.errors import HostFault
from headrace.hosts.spark.connecting import retried

NO_ANSWER = "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat org.apache..."


def test_a_start_without_an_answer_is_tried_again_with_a_message(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []
    pauses: list[float] = []

    def start() -> str:
        tries.append(len(tries))
        if len(tries) < 3:
            raise RuntimeError(NO_ANSWER)
        return "started"

    with caplog.at_level(logging.WARNING):
        assert retried(start, pauses.append) == "started"
    assert len(tries) == 3
    assert len(pauses) == 2
    assert [record.message for record in caplog.records] == [
        f"a Python process of Spark did not answer in time; starting again (try {n} of 3)" for n in (1, 2)
    ]


def test_after_three_tries_a_fault_says_what_to_do() -> None:
    def start() -> None:
        raise RuntimeError(NO_ANSWER)

    with pytest.raises(HostFault, match="did not answer in time, 3 times in a row") as caught:
        retried(start, lambda seconds: None)
    assert caught.value.hint is not None
    assert "free processor and memory" in caught.value.hint


def test_any_other_error_is_not_repeated() -> None:
    tries: list[int] = []

    def start() -> None:
        tries.append(1)
        raise ValueError("no such format")

    with pytest.raises(ValueError, match="no such format"):
        retried(start, lambda seconds: None)
    assert tries == [1]
