"""A FILES sink whose directory cannot be changed any more."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.files.sink import FilesSink, check_files_sink
from headrace.errors import SinkFault
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(v=Type.INT)


def page() -> Page:
    return page_of(SCHEMA, [{"v": 1}], [0])


@pytest.fixture
def sink(tmp_path: Path) -> FilesSink:
    return FilesSink("q", Connector("FILES", {"path": str(tmp_path / "out")}), SCHEMA, tmp_path / "checkpoint")


def test_closing_removes_the_empty_staging_directory(sink: FilesSink, tmp_path: Path) -> None:
    sink.write(0, [], [sink.stage(page(), "b0-1-1")])
    sink.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-000000000000-00000.parquet"]


def test_a_staging_directory_that_holds_results_stays(sink: FilesSink, tmp_path: Path) -> None:
    sink.stage(page(), "b0-1-1")
    sink.close()
    assert (tmp_path / "out" / "_staging" / "b0-1-1.parquet").exists()


def test_a_directory_that_has_become_read_only_does_not_fail_the_end(
    sink: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    sink.write(0, [], [sink.stage(page(), "b0-1-1")])
    monkeypatch.setattr(Path, "rmdir", refuse)
    sink.close()


def test_a_path_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkFault, match="cannot be made: File name too long"):
        check_files_sink(Connector("FILES", {"path": str(tmp_path / ("x" * 300))}), SCHEMA)
