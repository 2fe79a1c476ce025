"""Files that are still being written: their end is waited for, and what is added to them is read."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.files.index import BELIEVED, SETTLED, Entry, FileIndex
from headrace.session import Session
from headrace.testing.watching import local_host

NOW = 1_800_000_000 * 10**9


class Folder:
    """A watched directory whose files change when we say so."""

    def __init__(self, root: Path, mark: bytes | None = b"\n", end: bytes | None = None) -> None:
        self.now = NOW
        self.path = root / "in"
        self.path.mkdir()
        self.index = FileIndex(root / "files.jsonl", str(self.path), "*", mark=mark, end=end, clock=lambda: self.now)

    def write(self, name: str, text: str) -> str:
        path = self.path / name
        path.write_text(text)
        os.utime(path, ns=(self.now, self.now))
        return str(path)

    def found(self, later: int = 0) -> list[Entry]:
        """The files that are known after a look so much later."""
        self.now += later
        self.index.refresh()
        return [self.index[number] for number in range(len(self.index))]


@pytest.mark.parametrize("text", ["a\n1,2\n1,", ""])
def test_a_file_that_does_not_end_a_record_waits_until_it_does(tmp_path: Path, text: str) -> None:
    folder = Folder(tmp_path)
    folder.write("x.csv", text)
    assert folder.found(SETTLED - 1) == []
    assert folder.index.is_waiting
    path = folder.write("x.csv", "a\n1,2\n1,3\n")
    assert folder.found() == [Entry(path, 10)]
    assert not folder.index.is_waiting


def test_a_file_that_has_not_changed_for_long_is_taken_as_finished(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.write("x.csv", "a\n1,2")
    assert folder.found(SETTLED - 1) == []
    assert folder.found(1) == [Entry(path, 5)]


def test_a_file_of_rows_waits_until_it_is_whole(tmp_path: Path) -> None:
    folder = Folder(tmp_path, mark=None, end=b"PAR1")
    folder.write("x.parquet", "PAR1 half of it")
    assert folder.found(SETTLED - 1) == []
    assert folder.index.is_waiting
    path = folder.write("x.parquet", "PAR1 all of it PAR1")
    assert folder.found() == [Entry(path, 19)]
    damaged = folder.write("y.parquet", "PAR1 not whole")
    assert folder.found(SETTLED) == [Entry(path, 19), Entry(damaged, 14)], "reading says what is wrong"


def test_a_file_of_rows_that_has_nothing_yet_is_not_there(tmp_path: Path) -> None:
    folder = Folder(tmp_path, mark=None, end=b"PAR1")
    folder.write("x.parquet", "")
    folder.now += 1
    other = folder.write("y.parquet", "PAR1")
    assert folder.found() == [Entry(other, 4)]
    assert folder.found(2 * SETTLED) == [Entry(other, 4)]
    assert not folder.index.is_waiting
    path = folder.write("x.parquet", "PAR1PAR1")
    assert folder.found(BELIEVED) == [Entry(other, 4), Entry(path, 8)]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_file_of_rows_that_is_written_while_it_is_watched_is_read_whole(tmp_path: Path, form: str) -> None:
    rows = pl.DataFrame({"id": [1, 2, 3]}, schema={"id": pl.Int32})
    whole = io.BytesIO()
    if form == "parquet":
        rows.write_parquet(whole)
    else:
        rows.write_ipc(whole, compat_level=pl.CompatLevel.oldest())
    (tmp_path / "in").mkdir()
    with Session(host="local") as session:
        session.execute(
            f"CREATE STREAM s (id INT) FROM FILES (path '{tmp_path}/in', format '{form}');"
            "CREATE QUERY q AS SELECT id FROM s INTO MEMORY"
        )
        for size in (0, 10, len(whole.getvalue()) - 3, len(whole.getvalue())):
            assert session.results("q") == []
            (tmp_path / "in" / f"a.{form}").write_bytes(whole.getvalue()[:size])
            while local_host(session).step():
                pass
        assert [row["id"] for row in session.results("q")] == [1, 2, 3]


def test_a_file_whose_last_record_is_not_ended_is_read_before_later_ones(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    before = folder.write("b.csv", "a\n1\n")
    folder.now += 1
    open_end = folder.write("z.csv", "a\n2")
    folder.now += 1
    after = folder.write("a.csv", "a\n3\n")
    assert folder.found() == [Entry(before, 4)]
    assert folder.found(SETTLED) == [Entry(before, 4), Entry(open_end, 3), Entry(after, 4)]


def test_a_file_that_is_written_on_does_not_hold_others_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("empty.csv", "")
    folder.write("x.csv", "a\n1")
    folder.now += 1
    path = folder.write("y.csv", "a\n3\n")
    assert folder.found() == []
    folder.now += 1
    folder.write("x.csv", "a\n1\n2")
    assert folder.found() == [Entry(path, 4)]


def test_a_stream_that_ends_reads_what_there_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.write("x.csv", "a\n1,2")
    folder.index.hurry()
    assert folder.found() == [Entry(path, 5)]


def test_a_file_that_has_grown_is_found_again_from_its_old_end_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.write("x.csv", "a\n1\n")
    assert folder.found() == [Entry(path, 4)]
    folder.write("x.csv", "a\n1\n2")
    assert folder.found(1) == [Entry(path, 4)], "its last line is not complete"
    folder.write("x.csv", "a\n1\n2\n")
    assert folder.found(1) == [Entry(path, 4), Entry(path, 6, 4)]
    assert folder.found(1) == [Entry(path, 4), Entry(path, 6, 4)]


def test_a_file_that_has_shrunk_and_a_columnar_file_that_has_grown_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path, mark=None)
    path = folder.write("x.parquet", "abc")
    with caplog.at_level(logging.WARNING):
        assert folder.found() == [Entry(path, 3)]
        folder.write("x.parquet", "abcdef")
        assert folder.found(1) == folder.found(1) == [Entry(path, 3)]
    assert [record.message.count("had 3 bytes when it was found and has 6 now") for record in caplog.records] == [1]


def test_a_query_reads_every_record_of_a_file_that_is_written_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "in" / "x.csv"
    file.parent.mkdir()
    file.write_text("k,v\n1,10\n2,2")
    with Session(host="local") as session:
        session.execute(
            f"CREATE STREAM s (k INT, v INT) FROM FILES (path '{file.parent}', format 'csv');"
            "CREATE QUERY q AS SELECT k, v FROM s INTO MEMORY"
        )
        assert read(session) == []
        file.write_text("k,v\n1,10\n2,20\n")
        assert read(session) == [(1, 10), (2, 20)]
        with file.open("a") as more:
            more.write("3,30\n4,4")
        assert read(session) == [(1, 10), (2, 20)]
        with file.open("a") as more:
            more.write("0\n5,50")
        session.drain(60)
        assert values(session) == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]
        assert session.statistics().streams["s"].bad == 0


def read(session: Session) -> list[tuple[int, int]]:
    while local_host(session).step():
        pass
    return values(session)


def values(session: Session) -> list[tuple[int, int]]:
    return [(row["k"], row["v"]) for row in session.results("q")]
