"""Damaged files and rows: reading gives a value or one of our errors, and with a checksum never another value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.testing import byte_fuzz
from headrace.testing.byte_fuzz import Target

#: The first seed and how many; `python -m benches.fuzz --count 100000` tries more.
FIRST, COUNT = map(int, os.environ.get("HEADRACE_FUZZ_BYTES", "0:25").split(":"))


@pytest.mark.slow
def test_damaged_bytes_give_a_value_or_an_error_of_ours(tmp_path: Path) -> None:
    targets = byte_fuzz.targets(tmp_path)
    for target in targets:
        value = target.read(target.data)
        assert target.is_value is None or target.is_value(value), f"{target.name} is read as it was written"
    wrong = byte_fuzz.failures(targets, range(FIRST, FIRST + COUNT))
    assert not wrong, "\n".join(map(str, wrong[:20]))


@pytest.mark.parametrize("error", [KeyError("k"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), EOFError()])
def test_any_other_error_is_noticed(error: Exception) -> None:
    def read(data: bytes) -> None:
        raise error

    wrong = byte_fuzz.check(Target("a file", b"content", read), 0)
    assert wrong is not None
    assert type(error).__name__ in wrong.reason


def test_another_value_than_was_written_is_noticed() -> None:
    wrong = byte_fuzz.check(Target("a file", b"content", lambda data: data, lambda value: value == b"content"), 0)
    assert wrong is not None
    assert wrong.reason.startswith("another value than was written")
