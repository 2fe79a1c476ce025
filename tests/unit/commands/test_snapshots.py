"""A snapshot stands for commands that no micro-batch repeats: the log does not grow with the age of a deployment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.commands import log
from headrace.commands.command import Command, Set
from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.commands.settings import Eligibility, Ets
from headrace.errors import HostFault
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

EVERY = 8


@pytest.fixture(autouse=True)
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", EVERY)


def changes(count: int) -> list[tuple[Command, ...]]:
    """Return commands as they are sent: every third time two of them together."""
    return [
        (Set(None, Eligibility(number)), *([Set(None, Ets("periodic", number))] if number % 3 == 0 else []))
        for number in range(count)
    ]


def fold(sent: list[tuple[Command, ...]]) -> Running:
    running = Running()
    for command in (command for together in sent for command in together):
        running = running.after(command)
    return running


def grown(directory: Path, count: int) -> CommandLog:
    """Send commands, each of which is in force in a micro-batch that is committed."""
    written, running = CommandLog(directory), Running()
    for commands in changes(count):
        running = written.running(written.append(*commands), running)
        written.settle(running)
    return written


def test_a_log_keeps_a_bounded_number_of_files(tmp_path: Path) -> None:
    written = grown(tmp_path, 200)
    assert len(list(tmp_path.iterdir())) <= EVERY + 1
    expected = fold(changes(200))
    assert written.running(expected.commands, Running()) == expected
    read = CommandLog(tmp_path)
    assert read.count() == expected.commands
    assert read.running(expected.commands, Running()) == expected


def test_a_log_without_snapshots_continues(tmp_path: Path) -> None:
    written = CommandLog(tmp_path)
    for commands in changes(3 * EVERY):
        written.append(*commands)
    assert len(list(tmp_path.iterdir())) == 3 * EVERY
    expected = fold(changes(3 * EVERY))
    later = CommandLog(tmp_path)
    later.settle(later.running(later.count(), Running()))
    assert [path.name for path in tmp_path.iterdir()] == [f"snapshot-{expected.commands:08d}.json"]
    later.append(Set(None, Eligibility(7)))
    assert CommandLog(tmp_path).count() == expected.commands + 1


def test_a_crash_while_files_are_deleted_changes_nothing(tmp_path: Path) -> None:
    sent = changes(3 * EVERY)
    written = CommandLog(tmp_path / "log")
    for commands in sent:
        written.append(*commands)
    shutil.copytree(tmp_path / "log", tmp_path / "before")
    written.settle(written.running(written.count(), Running()))
    for path in sorted((tmp_path / "before").iterdir())[1::3]:  # some of them were not deleted
        shutil.copy(path, tmp_path / "log")
    read = CommandLog(tmp_path / "log")
    assert read.running(read.count(), Running()) == fold(sent)
    for commands in changes(2 * EVERY):
        read.append(*commands)
    read.settle(read.running(read.count(), Running()))
    assert len(list((tmp_path / "log").iterdir())) == 1, "the next snapshot removes what came back"


def test_a_reader_that_began_before_a_snapshot_goes_on(tmp_path: Path) -> None:
    written, reader = CommandLog(tmp_path), CommandLog(tmp_path)
    for number, commands in enumerate(changes(100)):
        written.append(*commands)
        if number % 30 == 1:
            assert reader.running(reader.count(), Running()) == fold(changes(number + 1))
        written.settle(written.running(written.count(), Running()))
    end = reader.count()
    assert reader.running(end, Running()) == fold(changes(100))


def test_a_worker_that_follows_forgets_what_a_snapshot_stands_for(tmp_path: Path) -> None:
    written, worker, running = CommandLog(tmp_path), CommandLog(tmp_path), Running()
    for commands in changes(100):
        count = written.append(*commands)
        running = worker.running(count, running)
        written.settle(written.running(count, Running()))
    assert running == fold(changes(100))
    with pytest.raises(HostFault, match="is not kept any more: a snapshot stands for the first"):
        worker.between(0, count)
    assert [command for together in changes(100) for command in together][-2:] == worker.between(count - 2, count)


def test_a_missing_file_behind_a_snapshot_is_a_fault(tmp_path: Path) -> None:
    written = grown(tmp_path, 20)
    count = written.append(Set(None, Eligibility(1)))
    (tmp_path / f"{count - 1:08d}.json").unlink()
    with pytest.raises(HostFault, match=f"{count - 1:08d}.json is missing"):
        CommandLog(tmp_path).running(count, Running())
    with pytest.raises(HostFault, match="is not kept any more"):
        CommandLog(tmp_path).running(3, Running())


def test_a_damaged_snapshot_is_a_fault(tmp_path: Path) -> None:
    grown(tmp_path, 20)
    (snapshot,) = tmp_path.glob("snapshot-*")
    snapshot.write_bytes(snapshot.read_bytes()[:40])
    with pytest.raises(HostFault, match=r"snapshot-\d+\.json is damaged"):
        CommandLog(tmp_path).count()


def test_a_query_that_flaps_leaves_no_trail(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        session.execute("CREATE STREAM s (v INT) FROM MEMORY; CREATE QUERY q AS SELECT v FROM s INTO MEMORY")
        session.execute("CREATE QUERY sums AS SELECT sum(v) AS total FROM s [ROWS 41] INTO MEMORY")
        for value in range(40):
            session.execute("STOP QUERY q" if value % 2 else "START QUERY q")
            session.push("s", [{"v": value}])
            while deployment.step():
                pass
        assert deployment.intake.deployments.count() > 60
        assert len(list((tmp_path / "commands").iterdir())) <= 2 * EVERY
    with Session(tmp_path, host="local") as session:
        session.push("s", [{"v": 1000}])
        session.drain(60)
        assert session.results("sums")[-1] == {"total": sum(range(40)) + 1000}
        assert session.results("q") == [], "it was off in the end"
