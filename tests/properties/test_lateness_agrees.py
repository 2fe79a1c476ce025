"""What is late depends on the records of a lane and their order, not on how reading them is divided."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.driver.intake import Intake
from headrace.driver.offset import START
from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.testing.oracle.rows import Row, split_late
from headrace.worker.wire import Kind

pytestmark = pytest.mark.slow

SECOND = 1_000_000
EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "15"))
FORMATS = ("csv", "json", "parquet", "arrow")
#: Times of records in seconds, by file; None: a record whose other column cannot be read, at a time far ahead.
FILES = st.lists(st.lists(st.one_of(st.integers(0, 60), st.none()), min_size=1, max_size=25), min_size=1, max_size=4)


def write(folder: Path, form: str, files: Sequence[Sequence[int | None]]) -> list[Row]:
    """Write files in order and return their good records in the order of arrival."""
    folder.mkdir()
    rows: list[Row] = []
    for number, times in enumerate(files):
        first = 1000 * number
        stamps = [EPOCH + dt.timedelta(seconds=1000 if time is None else time) for time in times]
        texts = ["x" if time is None else str(first + place) for place, time in enumerate(times)]
        rows += [Row(time * SECOND, {"n": int(n)}) for time, n in zip(times, texts, strict=True) if time is not None]
        path = folder / f"{number}.{form}"
        table = pl.DataFrame({"at": stamps, "n": texts}, schema={"at": pl.Datetime("us"), "n": pl.String})
        match form:
            case "csv":
                table.write_csv(path)
            case "json":
                lines = [f'{{"at": "{at}", "n": {n}}}\n' for at, n in zip(stamps, texts, strict=True)]
                path.write_text("".join(lines))
            case "parquet":
                table.write_parquet(path, row_group_size=5)
            case _:
                table.write_ipc(path, record_batch_size=5)
        os.utime(path, (1000 + number, 1000 + number))
    return rows


def statements(folder: Path, form: str, skew: int) -> str:
    return f"""
        CREATE STREAM s (at TIMESTAMP, n INT) TIMESTAMP BY at SKEW {skew} SECONDS
            FROM FILES (path '{folder}', format '{form}', pattern '*.{form}');
        CREATE QUERY kept AS SELECT n FROM s INTO MEMORY;
        CREATE QUERY late AS SELECT n FROM s.late INTO MEMORY;
        CREATE QUERY counted AS SELECT count(*) AS c, min(n) AS n FROM s [RANGE 10 SECONDS] INTO MEMORY;
    """


@contextmanager
def small_splits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.connectors.files.source._LEAST_ROWS", 1)
        patch.setattr("headrace.connectors.files.source._LEAST_BYTES", 1)
        yield


def run(text: str, *, parallel: int, limit: int, page: int, buckets: int) -> dict[str, list[Any]]:
    with small_splits(), Session(host="local", buckets=buckets, limit=limit, page=page) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.intake.parallel = parallel
        session.execute(text)
        session.drain(60)
        assert not list((session.directory / "notes").glob("*")), "what tasks told each other is removed"
        return {
            name: sorted(tuple(row.values()) for row in session.results(name)) for name in ("kept", "late", "counted")
        }


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(FORMATS), FILES, st.integers(0, 30), st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([1, 7, 20, 1000]), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 2]),
)  # fmt: skip
def test_every_division_of_the_reading_finds_the_late_tuples_that_the_oracle_finds(
    tmp_path_factory, form, files, skew, parallel, limit, page, buckets
):
    home = tmp_path_factory.mktemp("late")
    rows = write(home / "in", form, files)
    kept, late = split_late(rows, skew * SECOND)
    text = statements(home / "in", form, skew)
    results = run(text, parallel=parallel, limit=limit, page=page, buckets=buckets)
    assert results["kept"] == sorted((row.values["n"],) for row in kept)
    assert results["late"] == sorted((row.values["n"],) for row in late)
    assert results["counted"] == run(text, parallel=1, limit=10**6, page=10**6, buckets=1)["counted"]


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FORMATS), FILES, st.integers(0, 30), st.permutations(range(4)))
def test_tasks_of_a_micro_batch_send_the_same_in_any_order(tmp_path_factory, form, files, skew, order):
    home = tmp_path_factory.mktemp("order")
    write(home / "in", form, files)
    with small_splits(), Session(home / "checkpoint", host="local") as session:
        session.execute(statements(home / "in", form, skew))
        intake = Intake(session.directory, parallel=4, limit=1000)
        end = intake.latest(START, 0)
        tasks = intake.tasks(START, end)

        def rows_sent(places: Sequence[int]) -> dict[int, list[Any]]:
            intake.forget(end)
            sent = {}
            for place in places:
                ingest = intake.deployments.at(end.commands).ingest([0], 1000)
                if place < len(tasks):
                    rows = [row for row in ingest.run(tasks[place]) if row.kind is not Kind.CONTROL]
                    sent[place] = [(row.name, row.part, row.payload) for row in rows]
            return sent

        assert rows_sent(order) == rows_sent(range(4))
