import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from headrace.hosts.spark.hashing import partition_of, spread
from headrace.hosts.spark.starting.scratch import folder_settings, private_folder
from headrace.hosts.spark.starting.settings import (
    ANYWHERE,
    NEEDED,
    ONE_MACHINE,
    Setting,
    chosen_settings,
    process_environment,
)


@pytest.mark.parametrize("buckets", [1, 2, 6, 8, 60, 360])
def test_buckets_are_spread_evenly_over_every_number_of_partitions_that_divides_theirs(buckets: int) -> None:
    divisors = [count for count in range(1, buckets + 1) if buckets % count == 0]
    for planned in divisors:
        numbers = spread(buckets, planned)
        assert len(set(numbers)) == buckets
        for partitions in divisors:
            shares = Counter(partition_of(number, partitions) for number in numbers)
            assert set(shares.values()) == {buckets // partitions}


def test_buckets_are_spread_as_evenly_as_possible_over_another_number_of_partitions() -> None:
    shares = Counter(partition_of(number, 3) for number in spread(8, 3))
    assert sorted(shares.values()) == [2, 3, 3]


def test_paths_of_sockets_are_short_whatever_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert chosen_settings({}, is_local=True)["spark.python.unix.domain.socket.dir"] == "/tmp"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert chosen_settings({}, is_local=True)["spark.python.unix.domain.socket.enabled"] == "false"


def test_paths_of_sockets_are_in_lower_case_because_spark_tells_workers_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Temporary", "temporary"):
        short = Path("/tmp") / f"{name}-{os.getpid()}"
        short.mkdir()
        try:
            monkeypatch.setattr(tempfile, "tempdir", str(short))
            is_same = os.path.exists(str(short).lower())  # on a file system that does not tell case apart
            chosen = chosen_settings({}, is_local=True) | folder_settings(private_folder(), {})
            folder = chosen["spark.python.unix.domain.socket.dir"]
            assert folder.startswith(str(short)) if is_same else folder == "/tmp"
        finally:
            shutil.rmtree(short)


@pytest.mark.parametrize("setting", [*NEEDED, *ANYWHERE, *ONE_MACHINE], ids=lambda setting: setting.name)
def test_every_setting_that_headrace_chooses_is_documented_with_its_reason(setting: Setting) -> None:
    rows = (Path(__file__).parents[4] / "docs" / "cluster.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{setting.name}` | `{setting.value}` |")]
    assert row.endswith(f"| {setting.reason} |")


@pytest.mark.parametrize(("variable", "setting", "driver", "workers"), [
    (None, None, "2", "2"), ("5", None, "5", "5"), (None, "4", "4", "4"), ("5", "4", "5", "4"),
])  # fmt: skip
def test_glibc_divides_the_memory_of_spark_into_few_parts_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, setting: str | None, driver: str, workers: str
) -> None:
    name = "spark.executorEnv.MALLOC_ARENA_MAX"
    given = {} if setting is None else {name: setting}
    for changed in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "MALLOC_ARENA_MAX"):
        monkeypatch.setenv(changed, os.environ.get(changed, ""))
    if variable is None:
        monkeypatch.delenv("MALLOC_ARENA_MAX")
    else:
        monkeypatch.setenv("MALLOC_ARENA_MAX", variable)
    for _ in range(2):  # a start chooses them twice
        assert {**chosen_settings(given, is_local=True), **given}[name] == workers
        process_environment(given, is_local=True)
        assert os.environ["MALLOC_ARENA_MAX"] == driver
