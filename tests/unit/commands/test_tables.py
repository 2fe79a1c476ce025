"""Stored tables of commands, kept by digest."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from headrace.commands import tables
from headrace.commands.command import AddQuery
from headrace.commands.tables import INLINE_BYTES, sweep_tables, tables_in, texts_of_log, with_kept_tables
from headrace.errors import HostFault
from headrace.operators.specs import Impute, TableJoin
from headrace.operators.tables import stored_table
from headrace.operators.tuples.archives import StoredRows
from headrace.session import Session
from headrace.storage import contents

ROWS = 5000
QUERY = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;
CREATE TABLE names (k INT, name STRING, worth INT) FROM FILES (path '{folder}/names.csv', format 'csv');
CREATE QUERY q AS SELECT s.k, name FROM s JOIN names ON s.k = names.k INTO MEMORY;
CREATE QUERY filled AS SELECT k, IMPUTE(v USING names.worth ON s.k = names.k) AS v FROM s INTO MEMORY;
"""
PUSHED = [{"at": f"2026-01-01 00:00:0{i}", "k": i * 1000, "v": None} for i in range(4)]
NAMED = [{"k": i * 1000, "name": f"name {i * 1000}"} for i in range(4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"{k},name {k},{k + 1}" for k in range(ROWS)]
    (tmp_path / "names.csv").write_text("k,name,worth\n" + "\n".join(lines))
    return tmp_path


def test_a_large_table_lies_beside_the_log_and_is_found_after_a_restart(folder: Path) -> None:
    checkpoint = folder / "checkpoint"
    with Session(checkpoint, host="local", buckets=2) as session:
        session.execute(QUERY.format(folder=folder))
        session.push("s", PUSHED[:2])
        session.deployment.settle(1, 60)
        assert len(list(tables_in(checkpoint).iterdir())) >= 1
        log = b"".join(path.read_bytes() for path in (checkpoint / "commands").iterdir())
        assert len(log) < INLINE_BYTES
    (folder / "names.csv").unlink()  # it was read when the query was created
    with Session(checkpoint, host="local") as session:
        session.push("s", PUSHED[2:])
        session.drain(60)
        assert session.results("q") == NAMED[2:]
        assert session.results("filled") == [{"k": k, "v": k + 1} for k in (2000, 3000)]
    assert not any(b"name 4999" in path.read_bytes() for path in checkpoint.glob("local*"))


def test_a_table_that_is_kept_changes_no_name_of_a_vertex(folder: Path) -> None:
    commands = added(folder)
    for command in commands:
        kept = with_kept_tables(command, folder / "other")
        assert isinstance(kept, AddQuery)
        assert [vertex.id for vertex in kept.graph] == [vertex.id for vertex in command.graph]
        assert len(msgspec.json.encode(kept)) < INLINE_BYTES < len(msgspec.json.encode(command))
        assert with_kept_tables(kept, folder / "other") == kept
        contents.offer(tables_in(folder / "other"))
        (spec,) = [vertex.spec for vertex in kept.graph if isinstance(vertex.spec, TableJoin | Impute)]
        rows = spec.archive if isinstance(spec, Impute) else spec
        assert isinstance(rows, StoredRows | TableJoin)
        assert stored_table(rows.rows, rows.digest).height == ROWS


def test_tables_that_no_command_names_are_deleted(folder: Path) -> None:
    with Session(folder / "checkpoint", host="local") as session:
        session.execute(QUERY.format(folder=folder), start=False)
        session.deployment.send(*added(folder))
    known = sorted(path.name for path in tables_in(folder / "checkpoint").iterdir())
    contents.keep(tables_in(folder / "checkpoint"), b"of a command that was never written")
    assert sweep_tables(folder / "checkpoint", lambda: texts_of_log(folder / "checkpoint")) == 1
    assert sorted(path.name for path in tables_in(folder / "checkpoint").iterdir()) == known


def test_content_that_is_missing_or_damaged_is_a_fault(tmp_path: Path) -> None:
    contents.offer(tmp_path)
    with pytest.raises(HostFault, match="is missing"):
        contents.fetch("0" * 32)
    digest = contents.keep(tmp_path, b"rows")
    assert contents.fetch(digest) == b"rows"
    (tmp_path / digest).write_bytes(b"rots")
    with pytest.raises(HostFault, match="is damaged"):
        contents.fetch(digest)


def added(folder: Path) -> list[AddQuery]:
    """Return the commands that create the queries, with the table inside."""
    with patch.object(tables, "INLINE_BYTES", 10**9), Session(folder / "compiled", host="local") as session:
        session.execute(QUERY.format(folder=folder), start=False)
        return list(session._running().queries)
