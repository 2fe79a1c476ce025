"""The local host continues where it stopped, or says that it cannot."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.session import Session
from headrace.storage import sealed
from headrace.testing.watching import local_host

SCRIPT = """
CREATE STREAM bids (item INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY counts AS SELECT item, count(*) AS n FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;
"""


def bid(second: int) -> dict[str, object]:
    return {"item": 1, "at": f"2026-01-01 00:00:{second:02d}"}


def test_a_window_goes_on_after_a_stop(tmp_path: Path) -> None:
    counts = []
    for second in (1, 3, 5, 12):
        with Session(tmp_path, host="local") as session:
            session.execute(SCRIPT)
            session.push("bids", [bid(second)])
            while local_host(session).step():
                pass
            counts += session.results("counts")
    with Session(tmp_path, host="local") as session:
        session.execute(SCRIPT)
        session.drain(60)
        counts += session.results("counts")
    assert [row["n"] for row in counts] == [3, 1]


def test_a_deployment_that_did_not_stop_is_not_continued(tmp_path: Path) -> None:
    session = Session(tmp_path, host="local")
    session.execute(SCRIPT)
    session.push("bids", [bid(1)])
    assert local_host(session).step()
    del session
    gc.collect()
    with pytest.raises(HostFault, match="cannot continue"):
        Session(tmp_path, host="local").execute(SCRIPT)


def test_a_file_that_cannot_be_used_is_a_clear_fault_and_the_micro_batch_is_repeated(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(SCRIPT)
        session.push("bids", [bid(1)])
        (tmp_path / "progress.json").mkdir()
        with pytest.raises(HostFault, match=r"progress.json.* cannot be read or written") as caught:
            local_host(session).step()
        assert caught.value.hint
        (tmp_path / "progress.json").rmdir()
        session.push("bids", [bid(12)])
        session.drain(60)
        assert [row["n"] for row in session.results("counts")] == [1, 1]


def test_what_an_earlier_version_left_without_a_checksum_is_continued(tmp_path: Path) -> None:
    script = "CREATE STREAM s (v INT) FROM MEMORY; CREATE QUERY q AS SELECT v FROM s INTO MEMORY"
    with Session(tmp_path, host="local") as session:
        session.execute(script)
        session.push("s", [{"v": 1}])
        local_host(session).step()
    path = tmp_path / "local.msgpack"
    path.write_bytes(sealed.read(path))
    with Session(tmp_path, host="local") as session:
        session.push("s", [{"v": 2}])
        session.drain(60)
        assert session.results("q") == [{"v": 2}]


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute("CREATE STREAM s (v INT) FROM MEMORY; CREATE QUERY q AS SELECT v FROM s INTO MEMORY")
        local_host(session).step()
    path = tmp_path / "local.msgpack"
    path.write_bytes(path.read_bytes()[:20])
    with Session(tmp_path, host="local") as session, pytest.raises(HostFault, match=r"local\.msgpack is damaged"):
        session.start()
