"""Checkpoints, sources, tables and sinks in an object store, on the local host."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.objects.imitation import Proxy, key_of

from headrace.catalog.definitions import Connector
from headrace.connectors.files.sink import FilesSink
from headrace.errors import HeadraceError, SinkFault, SourceFault
from headrace.model.page import Page
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.storage import files

_touched: list[str] = []
_is_watching = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _is_watching and event in ("open", "os.mkdir", "os.rename", "os.link", "os.listdir", "os.scandir", "os.remove"):
        _touched.extend(str(arg) for arg in args[:2] if isinstance(arg, str) and "s3a:" in arg)


@pytest.fixture(autouse=True)
def nothing_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a URL is taken for a path of the local disk."""
    global _is_watching
    monkeypatch.chdir(tmp_path)
    if _watch not in _hooks:
        sys.addaudithook(_watch)
        _hooks.append(_watch)
    _touched.clear()
    _is_watching = True
    yield
    _is_watching = False
    assert _touched == []
    assert [path.name for path in tmp_path.iterdir()] == []


_hooks: list[object] = []


def put(path: Path, rows: pl.DataFrame) -> None:
    file = io.BytesIO()
    match path.suffix:
        case ".parquet":
            rows.write_parquet(file, row_group_size=10)
        case ".csv":
            rows.write_csv(file)
        case ".json":
            rows.write_ndjson(file)
        case _:
            rows.write_ipc(file)
    files.replace(path, file.getvalue())


def results(directory: Path) -> pl.DataFrame:
    names = [name for name in files.names(directory) if name.endswith(".parquet")]
    return pl.concat([pl.read_parquet(files.read(directory / name)) for name in names])


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "arrow"])
def test_files_are_read_and_written_exactly_once_across_sessions(proxy: Proxy, place: Path, form: str) -> None:
    source, sink, state = place / "in", place / "out", place / "state"
    put(source / f"a.{form}", pl.DataFrame({"k": [1, 2], "v": [10, 20]}))
    with Session(state, host="local") as session:
        session.execute(
            f"CREATE STREAM s (k INT, v INT) FROM FILES (path '{source}', format '{form}');"
            f"CREATE QUERY q AS SELECT k, v FROM s INTO FILES (path '{sink}')"
        )
        session.deployment.step()  # type: ignore[attr-defined]
    put(source / f"b.{form}", pl.DataFrame({"k": [3], "v": [30]}))
    with Session(state, host="local") as session:
        assert session.catalog.find("q") is not None
        session.start()
        session.drain(60)
    assert sorted(results(sink).rows()) == [(1, 10), (2, 20), (3, 30)]
    assert "_staging" not in files.names(sink)


def test_faults_of_the_store_do_not_show(proxy: Proxy, place: Path) -> None:
    for number in range(5):
        put(place / "in" / f"{number}.parquet", pl.DataFrame({"k": [number], "v": [number]}))
    proxy.lose_answer_every, proxy.lose_request_every, proxy.refuse_every = 7, 11, 5
    with Session(place / "state", host="local") as session:
        session.execute(
            f"CREATE STREAM s (k INT, v INT) FROM FILES (path '{place}/in', format 'parquet');"
            f"CREATE QUERY q AS SELECT k, sum(v) AS v FROM s [RANGE 1 DAY] GROUP BY k INTO FILES (path '{place}/out')"
        )
        session.drain(60)
    proxy.heal()
    assert sorted(results(place / "out").rows()) == [(number, number) for number in range(5)]


def test_a_table_a_glob_and_partitions_are_read_from_a_store(proxy: Proxy, place: Path) -> None:
    put(place / "names" / "all.csv", pl.DataFrame({"k": [1, 2], "name": ["one", "two"]}))
    put(place / "in" / "day=1" / "a.json", pl.DataFrame({"k": [1]}))
    put(place / "in" / "day=2" / "b.json", pl.DataFrame({"k": [2]}))
    put(place / "in" / "day=2" / "_c.json", pl.DataFrame({"k": [3]}))
    with Session(host="local") as session:
        session.execute(
            f"CREATE TABLE names (k INT, name STRING) FROM FILES (path '{place}/names', format 'csv');"
            f"CREATE STREAM s (k INT, day INT) FROM FILES (path '{place}/in', format 'json');"
            f"CREATE STREAM g (k INT) FROM FILES (path '{place}/in/*/*.json', format 'json');"
            "CREATE QUERY q AS SELECT s.k, day, name FROM s, names WHERE s.k = names.k INTO MEMORY;"
            "CREATE QUERY r AS SELECT k FROM g INTO MEMORY"
        )
        session.drain(60)
        assert sorted(map(str, session.results("q"))) == [
            "{'k': 1, 'day': 1, 'name': 'one'}",
            "{'k': 2, 'day': 2, 'name': 'two'}",
        ]
        assert sorted(row["k"] for row in session.results("r")) == [1, 2]


def test_a_bucket_that_is_not_there_is_named_at_the_statement(proxy: Proxy) -> None:
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (v INT) FROM MEMORY")
        with pytest.raises(SinkFault, match="there is no bucket nowhere"):
            session.execute("CREATE QUERY q AS SELECT v FROM s INTO FILES (path 's3://nowhere/out')")
        with pytest.raises(SourceFault, match="there is no bucket nowhere"):
            session.execute("CREATE STREAM t (v INT) FROM FILES (path 's3://nowhere/in', format 'csv')")
    with pytest.raises(HeadraceError, match="cannot read the checkpoint s3a://nowhere/state: there is no bucket"):
        Session("s3://nowhere/state", host="local")


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_micro_batch_makes_three_requests_at_most_and_one_for_each_part(proxy: Proxy, place: Path) -> None:
    for number in range(12):
        put(place / "in" / f"{number:02d}.parquet", pl.DataFrame({"k": range(10), "v": [number] * 10}))
    with Session(place / "state", host="local", limit=10, interval=0) as session:
        session.execute(
            f"CREATE STREAM s (k INT, v INT) FROM FILES (path '{place}/in', format 'parquet');"
            f"CREATE QUERY q AS SELECT k, v FROM s INTO FILES (path '{place}/out')"
        )
        first = len(proxy.requests)
        for _ in range(12):
            session.deployment.step()  # type: ignore[attr-defined]
        requests = [f"{method} {key_of(path)}" for method, path, _ in proxy.requests[first:]]
    root = place.parts[2]
    batches = "\n".join(requests).split(f"PUT {root}/state/progress.json")
    assert len(batches) == 13
    for batch in batches[2:-1]:  # the first ones open things
        others = [request for request in batch.split() if "/" in request and f"{root}/in" not in request]
        parts = [request for request in others if request.endswith(".parquet")]
        assert len(parts) == 1
        assert len(others) - len(parts) <= 2  # beside the progress


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_part_that_a_task_staged_takes_two_requests_and_none_stays(proxy: Proxy, place: Path) -> None:
    schema, connector = Schema((Field("v", Type.BIGINT),)), Connector("FILES", {"path": str(place / "out")})
    sink = FilesSink("q", connector, schema, place / "state")
    sink.write(0, [], [])
    first = len(proxy.requests)
    batches = 40
    for batch in range(1, batches + 1):
        names = [sink.stage(page(batch, task), f"b{batch}-{task}-1") for task in range(3)]
        sink.write(batch, [], names)
        sink.write(batch, [], names) if batch == 5 else None  # a delivery that is repeated
    requests = proxy.requests[first:]
    parts = [path for _, path, _ in requests if path.endswith(".parquet")]
    assert len(parts) == 2 * 3 * batches + 3
    assert len(requests) - len(parts) <= batches / 4
    assert sorted(results(place / "out")["v"]) == sorted(10 * b + t for b in range(1, batches + 1) for t in range(3))
    sink.sweep()
    sink.close()
    assert "_staging" not in files.names(place / "out")
    sink.write(batches, [], names)  # the process died before it could say that this one was delivered
    assert results(place / "out").height == 3 * batches


def page(batch: int, task: int) -> Page:
    return Page(pl.DataFrame({"v": [10 * batch + task], TS: [0]}))
