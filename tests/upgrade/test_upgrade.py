"""Checkpoints that earlier versions wrote: this one continues them exactly, or refuses them and says what to do.

As a program, this makes such a checkpoint:

    .venv/bin/python tests/upgrade/test_upgrade.py tests/upgrade/format-5.zip

Do so when the format number changes, and keep the file of the format before: from then on it is refused, or continued
with the new number. A file is not made again for any other reason. That it can be continued although stored values have
new fields is what it is for.
"""

from __future__ import annotations

import datetime
import io
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from headrace.commands import log
from headrace.commands.running import Running
from headrace.errors import HostFault
from headrace.hosts.checkup import check_up
from headrace.hosts.local import LocalDeployment, read_saved
from headrace.hosts.spark.offset_log import read_offset
from headrace.session import Session
from headrace.storage import format as formats
from headrace.storage import sealed
from headrace.storage.format import EARLIER, FORMAT, can_be_read, format_of

KEPT = sorted(Path(__file__).parent.glob("format-*.zip"))
#: Of the file of one format, in bytes: it is in the repository for good.
LARGEST = 30_000
STATEMENTS = """
CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE STREAM asks (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE VIEW high AS SELECT at, item, price FROM bids WHERE price > 10;
CREATE EVENT deal AS bids SEQUENCE asks WITHIN 1 MINUTE;
CREATE EVENT alarm (item INT);
CREATE RULE deals ON deal CONTEXT RECENT DO RAISE EVENT alarm (item), INSERT INTO MEMORY;
CREATE QUERY panes AS SELECT item, count(*) AS n, avg(price) AS mean, max(price) AS most
  FROM bids [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY item INTO MEMORY;
CREATE QUERY counted AS SELECT sum(price) AS total FROM bids [ROWS 5] INTO MEMORY;
CREATE QUERY pairs AS SELECT b.item, b.price AS bid, a.price AS ask
  FROM bids [RANGE 20 SECONDS] AS b JOIN asks [RANGE 20 SECONDS] AS a ON b.item = a.item INTO MEMORY;
CREATE QUERY sizes AS SELECT n, count(*) AS items
  FROM (SELECT item, count(*) AS n FROM bids [RANGE 10 SECONDS] GROUP BY item) [RANGE 20 SECONDS]
  GROUP BY n INTO MEMORY;
CREATE QUERY waiting AS SELECT b.item, b.price AS bid, a.price AS ask
  FROM bids [RANGE 20 SECONDS] AS b LEFT JOIN asks [RANGE 5 SECONDS] AS a ON b.item = a.item INTO MEMORY;
CREATE QUERY highest AS SELECT DISTINCT item FROM high [RANGE 30 SECONDS] INTO MEMORY;
CREATE QUERY alarms AS SELECT item FROM alarm INTO MEMORY;
CREATE QUERY stopped AS SELECT item FROM asks INTO MEMORY;
ALTER QUERY panes SET scheduler = 'chain';
STOP QUERY stopped;
"""
#: So often the query that is stopped is started and stopped again, so that the log of commands has a snapshot.
FLAPS = 6
QUERIES = ("panes", "counted", "pairs", "sizes", "highest", "alarms", "deals", "stopped", "waiting")
#: Of two buckets.
PARCELS = ", ".join(map(str, range(128)))
#: That of one of the two items in the second bucket.
ONE = 47
START = datetime.datetime.fromisoformat("2026-01-01")


@pytest.fixture(params=KEPT, ids=lambda path: path.stem)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def is_read(checkpoint: Path) -> bool:
    number = format_of(checkpoint)
    return number is not None and can_be_read(number)


def test_there_is_a_checkpoint_of_each_format() -> None:
    assert [path.name for path in KEPT] == [f"format-{number}.zip" for number in range(1, FORMAT + 1)]
    assert all(path.stat().st_size < LARGEST for path in KEPT)


def test_a_checkpoint_of_an_earlier_version_continues_exactly_or_is_refused(kept: Path) -> None:
    checkpoint = kept / "checkpoint"
    if is_read(checkpoint):
        assert finish(checkpoint) == json.loads((kept / "expected.json").read_text())
    else:
        with pytest.raises(HostFault, match=r"has format \d+, and this version of Headrace reads format"):
            Session(checkpoint, host="local")


def test_a_checkpoint_has_the_new_number_once_it_is_continued_and_not_before(kept: Path) -> None:
    checkpoint = kept / "checkpoint"
    if not is_read(checkpoint):
        pytest.skip("it is refused")
    before = format_of(checkpoint)
    with Session(checkpoint, host="local") as session:
        session.execute("SHOW QUERIES", start=False)
        assert format_of(checkpoint) == before, "looking changes nothing"
        session.start()
        assert format_of(checkpoint) == FORMAT, "an earlier version must not go on with it"


def test_an_earlier_version_refuses_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path)
    commands = log.CommandLog(tmp_path / "commands")
    assert any(found.splits for found in commands.running(commands.count(), Running()).allotments.values())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(formats, "FORMAT", min(EARLIER))
    with pytest.raises(HostFault, match="has format 5, and this version of Headrace reads format 2") as caught:
        Session(tmp_path, host="local")
    assert "a later one than this" in str(caught.value.hint)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_checkpoint_of_an_earlier_version_has_no_problems(kept: Path) -> None:
    checkpoint = kept / "checkpoint"
    if not is_read(checkpoint):
        pytest.skip("it is refused")
    on_local = check_up(checkpoint)
    assert on_local.problems == ()
    assert on_local.snapshot > 0
    assert {query.name: query.state for query in on_local.queries}["stopped"] == "off"
    # the same as Spark would keep it
    (checkpoint / "local.msgpack").unlink()
    for name in ("offsets", "commits"):
        (checkpoint / "spark" / name).mkdir(parents=True)
        shutil.copy(kept / "spark-offset", checkpoint / "spark" / name / "0")
    sealed.replace(checkpoint / "buckets.json", b"[0]")
    assert check_up(checkpoint).problems == ()
    assert read_offset(checkpoint / "spark", 0).exchanges


def test_what_is_kept_is_what_this_version_would_continue_alike(tmp_path: Path) -> None:
    begin(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    assert finish(tmp_path / "checkpoint") == finish(tmp_path / "copy")


def rows(seconds: range, price: float) -> list[dict[str, Any]]:
    return [
        {"at": START + datetime.timedelta(seconds=second), "item": second % 3, "price": price + second}
        for second in seconds
    ]


def begin(checkpoint: Path) -> None:
    """Make a checkpoint: with state of all kinds, tuples between two micro-batches, and rows that are not read yet."""
    with patch.object(log, "SNAPSHOT_EVERY", 8), Session(checkpoint, host="local", buckets=2) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        session.execute(STATEMENTS)
        for number in range(FLAPS):
            session.execute("START QUERY stopped" if number % 2 == 0 else "STOP QUERY stopped")
            assert deployment.step()
        session.push("bids", rows(range(34), 5.0))
        session.push("asks", rows(range(3, 30, 2), 1.0))
        assert deployment.step()
        assert deployment.offset.exchanges
        session.execute(f"MOVE PARCELS {ONE} OF panes TO BUCKET 0")
        assert deployment.step()
        kept = [chunk for state in deployment.kept[1].engine.state().values() for chunk in state]
        assert any(chunk.endswith("gone") for chunk in kept), "some rows of a chunk have left"
        session.execute(
            f"MOVE PARCELS {PARCELS} OF waiting TO BUCKET 1; MOVE PARCELS {PARCELS} OF pairs TO ALL BUCKETS"
        )
        assert deployment.step()
        assert list((checkpoint / "moves").iterdir()), "on their way"
        session.push("bids", rows(range(34, 38), 2.0))


def finish(checkpoint: Path) -> dict[str, list[dict[str, Any]]]:
    """Continue a checkpoint with more rows, to its end; return what its queries deliver from there."""
    with Session(checkpoint, host="local") as session:
        session.execute("START QUERY stopped")
        session.push("bids", rows(range(38, 50), 3.0))
        session.push("asks", rows(range(31, 50, 3), 4.0))
        session.drain(120)
        return {query: sorted(map(_plain, session.results(query)), key=str) for query in QUERIES}


def offset_as_spark_keeps_it(checkpoint: Path) -> bytes:
    """Return the offset of a checkpoint as an entry of Spark's log."""
    saved = read_saved(checkpoint / "local.msgpack")
    assert saved is not None
    return b"v1\n{}\n" + msgspec.json.encode(saved.offset)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, datetime.datetime) else value for name, value in row.items()}


def make(archive: Path) -> None:
    """Write a checkpoint, and what comes of it, into a file."""
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / "checkpoint"
        begin(checkpoint)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
            for path in sorted(checkpoint.rglob("*")):
                if path.is_file() and path.name != "owner.json":
                    file.write(path, path.relative_to(temporary))
            file.writestr("spark-offset", offset_as_spark_keeps_it(checkpoint))
            file.writestr("expected.json", json.dumps(finish(checkpoint), indent=1))
        archive.write_bytes(packed.getvalue())


if __name__ == "__main__":
    make(Path(sys.argv[1]))
