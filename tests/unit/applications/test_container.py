"""The alarm container: tickets, locks, views and the archive, on SQLite, and on PostgreSQL where there is one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headrace.applications.nfmi import desk, views
from headrace.applications.nfmi.container import CLEAR, Container, Locked, Screen
from headrace.errors import NameFault
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

NOON = datetime.fromisoformat("2026-01-01 12:00:00")


@pytest.fixture
def container(place: str) -> Container:
    made = Container(place)
    made.open("ring 3", at=NOON, domain="SDH", source="SDH-3-1", kind="SIGNAL LOST", severity="MAJOR")
    return made


def minutes(n: float) -> datetime:
    return NOON + timedelta(minutes=n)


def test_every_alarm_gets_a_ticket_of_its_own_and_keeps_it(container: Container) -> None:
    for i in range(5):
        container.open(
            f"VC-{i}", at=NOON, domain="ATM", source=f"VC-{i}", kind="SIGNAL LOST", severity="MINOR", parent="ring 3"
        )
    container.update("VC-1", at=minutes(1), severity="MAJOR")
    assert [alarm.ticket for alarm in sorted(container.alarms().values(), key=lambda alarm: alarm.ticket)] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert (container.alarms()["VC-1"].severity, container.alarms()["VC-1"].ticket) == ("MAJOR", 3)
    container.open("VC-1", at=minutes(2), domain="ATM", source="VC-1", kind="SIGNAL LOST", severity="MINOR")
    assert container.alarms()["VC-1"].severity == "MAJOR", "one that is there stays as it is"


def test_the_same_call_again_does_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(desk.PLACE, place)
    for _ in range(2):
        desk.opened("ring 1", "SDH", "SDH-1-1", "SIGNAL LOST", "MAJOR", NOON, key="a")
        desk.attached("ring 1", "ATM", "VC-1-1", "SIGNAL LOST", "MAJOR", minutes(1), key="b")
        desk.explained("ring 1", 1, NOON, key="c")
    assert desk.container().alarms()["ring 1"].version == 2
    desk.escalated("ring 1", minutes(15), key="d")
    desk.closed("ring 1", minutes(20), key="e")
    desk.escalated("ring 1", minutes(15), key="d")
    found = desk.container().alarms()
    assert {name: (alarm.parent, alarm.status) for name, alarm in found.items()} == {
        "ring 1": (None, CLEAR),
        f"VC-1-1 at {minutes(1)}": ("ring 1", CLEAR),
    }
    assert (found["ring 1"].severity, found["ring 1"].note) == ("CRITICAL", "1 consequences")


def test_two_experts_edit_two_fields_of_one_alarm_and_both_count(container: Container) -> None:
    assert container.edit("ring 3", "severity", "ann") == "MAJOR"
    assert container.edit("ring 3", "note", "bob") is None
    container.finish("ring 3", "severity", "ann", "CRITICAL", at=minutes(1))
    assert container.versions("ring 3") == [1, 2], "bob still works on the first"
    container.finish("ring 3", "note", "bob", "crew is on its way", at=minutes(2))
    assert container.versions("ring 3") == [3]
    found = container.alarms()["ring 3"]
    assert (found.severity, found.note, found.changed) == ("CRITICAL", "crew is on its way", f"{minutes(2)}")


def test_a_field_is_locked_by_who_edits_it(container: Container) -> None:
    container.edit("ring 3", "note", "ann")
    container.edit("ring 3", "note", "ann")
    with pytest.raises(Locked, match="ann is editing note"):
        container.edit("ring 3", "note", "bob")
    with pytest.raises(Locked, match="bob has not locked"):
        container.finish("ring 3", "note", "bob", "mine", at=NOON)
    container.update("ring 3", at=minutes(1), note="from a rule", severity="MINOR")
    assert (container.alarms()["ring 3"].note, container.alarms()["ring 3"].severity) == (None, "MINOR"), (
        "what ann edits is left to her"
    )
    container.finish("ring 3", "note", "ann", "hers", at=minutes(2))
    container.edit("ring 3", "note", "bob")


def test_views_show_the_newest_version_and_screens_what_changed(container: Container) -> None:
    container.define_view("roots", "parent IS NULL", ("alarm", "severity", "status"))
    container.define_view("atm", "domain = 'ATM'")
    screen = Screen(container, "roots")
    assert screen.look() == (["ring 3"], [])
    container.open("VC-1", at=NOON, domain="ATM", source="VC-1", kind="SIGNAL LOST", severity="MINOR", parent="ring 3")
    assert screen.look() == ([], []), "a consequence is nobody's root"
    assert [row[0] for row in container.view("atm")] == ["VC-1"]
    container.edit("ring 3", "severity", "ann")
    container.finish("ring 3", "severity", "ann", "CRITICAL", at=minutes(1))
    assert screen.look() == (["ring 3"], [])
    assert screen.rows == {"ring 3": ("ring 3", "CRITICAL", "OPEN")}
    container.clear("ring 3", at=minutes(2))
    container.purge(now=minutes(30), lifetime=timedelta(minutes=10))
    assert screen.look() == ([], ["ring 3"])


def test_what_is_clear_for_long_goes_to_the_archive_unless_somebody_works_on_it(container: Container) -> None:
    container.open("VC-1", at=NOON, domain="ATM", source="VC-1", kind="SIGNAL LOST", severity="MINOR", parent="ring 3")
    container.open("other", at=NOON, domain="ATM", source="VC-9", kind="SIGNAL LOST", severity="MINOR")
    container.clear("ring 3", at=minutes(5))
    container.edit("VC-1", "note", "ann")
    day = timedelta(days=1)
    assert container.purge(now=minutes(6), lifetime=day) == []
    assert container.purge(now=minutes(6) + day, lifetime=day) == ["ring 3"]
    container.finish("VC-1", "note", "ann", "was a squirrel", at=minutes(7))
    assert container.purge(now=minutes(8) + day, lifetime=day) == ["VC-1"]
    assert container.archived() == ["VC-1", "ring 3"]
    assert list(container.alarms()) == ["other"]
    container.open("ring 3", at=NOON, domain="SDH", source="SDH-3-1", kind="SIGNAL LOST", severity="MAJOR")
    assert list(container.alarms()) == ["other"], "an archived alarm is not opened again"


def test_a_change_that_fails_leaves_nothing_behind(container: Container) -> None:
    with pytest.raises(NameFault, match="no alarm"):
        container.clear("ring 9", at=NOON, key="k") or container.update("ring 9", at=NOON, key="u", note="x")
    container.open("ring 9", at=NOON, domain="SDH", source="SDH-9-1", kind="SIGNAL LOST", severity="MAJOR")
    container.update("ring 9", at=NOON, key="u", note="x")
    assert container.alarms()["ring 9"].note == "x", "the key of a failed call is free"
    with pytest.raises(NameFault, match="cannot be edited"):
        container.edit("ring 9", "ticket", "ann")


def test_many_at_once_lose_nothing(place: str) -> None:
    container = Container(place)

    def work(who: int) -> None:
        mine = Container(place)
        for i in range(5):
            mine.open(f"{who}/{i}", at=NOON, domain="ATM", source="VC", kind="SIGNAL LOST", severity="MINOR")
            mine.update("shared", at=NOON, **{("note", "owner", "severity")[who]: f"{i}"})

    container.open("shared", at=NOON, domain="SDH", source="SDH", kind="SIGNAL LOST", severity="MAJOR")
    threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = container.alarms()
    assert len({alarm.ticket for alarm in found.values()}) == 16
    assert (found["shared"].note, found["shared"].owner, found["shared"].severity, found["shared"].version) == (
        "4",
        "4",
        "4",
        16,
    )


def test_a_view_as_a_continuous_query_shows_what_the_database_shows(place: str) -> None:
    container = Container(place)
    condition, columns = "parent IS NULL AND status = 'OPEN'", ("alarm", "version", "severity", "owner")
    container.define_view("center", condition, columns)
    steps: list[Callable[[], object]] = [
        lambda: container.open("a", at=NOON, domain="SDH", source="x", kind="LOST", severity="MINOR"),
        lambda: container.open("b", at=NOON, domain="ATM", source="y", kind="LOST", severity="MAJOR"),
        lambda: container.open("b1", at=NOON, domain="ATM", source="z", kind="LOST", severity="MINOR", parent="b"),
        lambda: container.update("a", at=minutes(1), severity="CRITICAL"),
        lambda: container.edit("b", "owner", "ann"),
        lambda: container.finish("b", "owner", "ann", "crew 7", at=minutes(2)),
        lambda: container.clear("a", at=minutes(3)),
        lambda: container.update("a", at=minutes(4), status="OPEN"),
        lambda: container.clear("b", at=minutes(5)),
        lambda: container.purge(now=minutes(90), lifetime=timedelta(hours=1)),
    ]
    shown = list[object]()
    with Session(host="local") as session:
        feed = views.Feed(container, session)
        views.define_view(session, "center", condition)
        for step in steps:
            step()
            assert feed.push() <= 2
            run(session)
            shown.append(views.rows(session, "center", columns))
            assert shown[-1] == container.view("center")
        with pytest.raises(NameFault, match="no column"):
            views.rows(session, "center", ("colour",))
    assert len({str(rows) for rows in shown}) == 7, "the view changed with most steps"
    assert container.archived() == ["b", "b1"]


def test_a_feed_that_begins_again_pushes_each_change_once(container: Container, tmp_path: Path) -> None:
    found = list[int]()
    for number in range(3):
        with Session(tmp_path / "checkpoint", host="local") as session:
            feed = views.Feed(container, session)
            session.execute(f"CREATE QUERY IF NOT EXISTS numbers AS SELECT number FROM {views.STREAM} INTO MEMORY")
            container.update("ring 3", at=minutes(number), note=f"note {number}")
            feed.push()
            run(session)
            found += [row["number"] for row in session.results("numbers")]
    assert found == [1, 2, 3, 4]


def run(session: Session) -> None:
    """Run micro-batches until nothing is left to read."""
    session.start()
    assert isinstance(session.deployment, LocalDeployment)
    while session.deployment.step():
        pass
