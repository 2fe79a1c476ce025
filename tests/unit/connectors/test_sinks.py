import datetime
import errno
import io
import os
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.console import ConsoleSink, block
from headrace.connectors.files.sink import FilesSink
from headrace.connectors.files.source import FilesSource
from headrace.errors import SinkFault
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(n=Type.BIGINT, s=Type.STRING)


def page(*numbers: int) -> Page:
    return page_of(SCHEMA, [{"n": n, "s": f"s{n}"} for n in numbers], list(numbers))


def sink(path: Path, form: str = "parquet", schema: Schema = SCHEMA) -> FilesSink:
    return FilesSink("q", Connector("FILES", {"path": str(path), "format": form}), schema, path)


def names(path: Path) -> list[str]:
    return sorted(found.name for found in path.rglob("*") if found.is_file())


def test_each_batch_with_results_is_one_file_and_writing_again_replaces_it(tmp_path: Path) -> None:
    files = sink(tmp_path / "out")
    files.write(0, [page(1), page(2)])
    files.write(1, [page()])
    files.write(2, [page(3)])
    files.write(2, [page(4)])
    files.close()
    assert names(tmp_path / "out") == ["part-000000000000.parquet", "part-000000000002.parquet"]
    assert pl.read_parquet(tmp_path / "out" / "*.parquet").to_dict(as_series=False) == {
        "n": [1, 2, 4],
        "s": ["s1", "s2", "s4"],
    }
    files.write(2, [])
    assert names(tmp_path / "out") == ["part-000000000000.parquet"]


def test_staged_files_are_adopted_and_a_second_try_changes_nothing(tmp_path: Path) -> None:
    files = sink(tmp_path / "out")
    task = pickle.loads(pickle.dumps(files))
    staged = [task.stage(page(1), "7-a"), task.stage(page(2), "7-b")]
    assert names(tmp_path / "out") == ["7-a.parquet", "7-b.parquet"]
    files.write(7, [page(3)], staged)
    once = names(tmp_path / "out")
    assert once == ["part-000000000007-00000.parquet", "part-000000000007-00001.parquet", "part-000000000007.parquet"]
    files.write(7, [page(3)], staged)  # the driver died after the renames
    assert names(tmp_path / "out") == once
    files.write(7, [], [task.stage(page(9), "7-a")])
    assert names(tmp_path / "out") == ["part-000000000007-00000.parquet"]
    files.close()
    assert not (tmp_path / "out" / "_staging").exists()


def test_parts_of_an_earlier_try_go_even_if_it_died_while_deleting_them(tmp_path: Path) -> None:
    for number in (0, 2, 3):
        (tmp_path / "out" / f"part-000000000007-{number:05d}.parquet").parent.mkdir(exist_ok=True)
        (tmp_path / "out" / f"part-000000000007-{number:05d}.parquet").touch()
    files = sink(tmp_path / "out")
    files.write(7, [], [files.stage(page(1), "7-a")])
    assert names(tmp_path / "out") == ["part-000000000007-00000.parquet"]


def test_what_nobody_adopted_is_swept_at_the_start(tmp_path: Path) -> None:
    sink(tmp_path / "out").stage(page(1), "7-a")
    (tmp_path / "out" / ".part-000000000007.parquet.12.tmp").touch()
    files = sink(tmp_path / "out")
    files.write(6, [page(3)])
    assert files.sweep() == 2
    assert files.sweep() == 0
    files.close()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["part-000000000006.parquet"]


def test_what_a_lost_attempt_staged_is_gone_after_the_next_micro_batch(tmp_path: Path) -> None:
    files = sink(tmp_path / "out")
    files.write(7, [], [files.stage(page(1), "b7-0-1")])
    files.stage(page(1), "b7-0-1")  # a slow attempt, after the driver has put the file of a faster one into place
    files.stage(page(2), "b9-0-1")
    files.write(8, [])
    assert [path.name for path in (tmp_path / "out" / "_staging").iterdir()] == ["b9-0-1.parquet"]


def test_a_lost_staged_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SinkFault, match="was deleted"):
        sink(tmp_path / "out").write(0, [], ["never"])


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_what_the_sink_writes_the_source_reads(tmp_path: Path, form: str) -> None:
    schema = Schema.of(
        b=Type.BOOLEAN,
        i=Type.INT,
        l=Type.BIGINT,
        f=Type.FLOAT,
        d=Type.DOUBLE,
        s=Type.STRING,
        day=Type.DATE,
        at=Type.TIMESTAMP,
        span=Type.INTERVAL,
        raw=Type.BINARY,
    )
    moment = datetime.datetime.fromisoformat("2026-01-01T01:02:03.000004")
    full: dict[str, Any] = {
        "b": True,
        "i": 1,
        "l": 2**40,
        "f": 0.5,
        "d": 0.1,
        "s": 'a"b,c',
        "day": moment.date(),
        "at": moment,
    }
    full |= {"span": datetime.timedelta(microseconds=5), "raw": b"\x00\xff"}
    rows = [full, dict.fromkeys(schema.names)]
    sink(tmp_path / "out", form, schema).write(0, [page_of(schema, rows, [0, 1])])
    stream = Stream("s", schema, Connector("FILES", {"path": str(tmp_path / "out"), "format": form}), Timing.LATENT)
    source = FilesSource(stream, tmp_path / "check")
    (split,) = source.splits(None, source.latest(None, now=0, limit=9), parallel=1)
    (piece,) = source.read(split)
    assert piece.bad is None
    assert piece.rows.to_dicts() == rows


def test_a_path_below_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkFault, match="is a file, not a directory"):
        sink(tmp_path / "file" / "out")


def test_a_directory_that_goes_away_is_a_fault_with_its_name(tmp_path: Path) -> None:
    files = sink(tmp_path / "out")
    (tmp_path / "out").rmdir()
    with pytest.raises(SinkFault, match=r"results cannot be written to .*out"):
        files.write(0, [page(1)])
    assert names(tmp_path) == []


def test_the_console_shows_a_block_per_batch_and_caps_it() -> None:
    out = io.StringIO()
    console = ConsoleSink("q", Connector("CONSOLE", {"rows": 2}), SCHEMA, Path(), out)
    console.write(3, [page(1, 20), page(3)])
    console.write(3, [page(1, 20), page(3)])
    console.write(4, [])
    console.write(5, [page_of(SCHEMA, [{"n": None, "s": "x"}], [0])])
    console.close()
    assert out.getvalue() == "q #3\n   n  s\n   1  s1\n  20  s20\n  ... 1 more\nq #5\n     n  s\n  NULL  x\n"


class Closed(io.StringIO):
    """A text stream that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def test_a_standard_output_that_nobody_reads_fails_every_try_of_a_batch() -> None:
    console = ConsoleSink("q", Connector("CONSOLE", {}), SCHEMA, Path(), Closed())
    for _ in range(2):
        with pytest.raises(SinkFault, match="CONSOLE cannot write to the standard output: Broken pipe"):
            console.write(0, [page(1)])


def test_the_console_shows_what_a_terminal_would_obey_or_lacks_as_escapes() -> None:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="ascii")
    texts = ["a\x1b[2Jb\r\nc", "\x85", "ü🎉"]
    ConsoleSink("q", Connector("CONSOLE", {}), SCHEMA, Path(), out).write(
        0, [page_of(SCHEMA, [{"n": 1, "s": text} for text in texts], [0, 0, 0])]
    )
    lines = ["q #0", "  n  s", r"  1  a\x1b[2Jb\r\nc", r"  1  \x85", r"  1  \xfc\U0001f389", ""]
    assert written.getvalue().decode("ascii").split("\n") == lines


def test_an_array_on_the_console_is_a_list() -> None:
    assert "[1, None]" in block("q #0", pl.DataFrame({"a": [[1, None]]}), 10)
