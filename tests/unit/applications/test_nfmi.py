"""Network faults: thousands of messages, one alarm for each fault, everything else below it."""

from pathlib import Path

import pytest

from headrace.applications.application import run
from headrace.applications.nfmi import desk, formats
from headrace.applications.nfmi.application import CONSEQUENCES, Nfmi
from headrace.applications.nfmi.container import Container
from headrace.applications.nfmi.network import TERMINATORS, network
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

pytestmark = pytest.mark.slow

#: Elements that repeat their complaints less often, so that there is less to read.
CALM = Nfmi(repeat=20)


def test_a_cut_fibre_gives_one_alarm_with_its_consequences_below_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(desk.PLACE, place)
    with Session(host="local", buckets=2) as session:
        results = run(CALM, session, tmp_path / "here", 1, timeout=100)
    checks = CALM.checks(1, tmp_path / "here", results)
    assert [check for check in checks if not check.holds] == []
    container = Container(place)
    container.define_view("center", "parent IS NULL AND status = 'OPEN'", ("alarm", "severity", "note"))
    ((alarm, severity, note),) = container.view("center")
    (open_cut,) = (cut for cut in network(1, repeat=20).cuts if cut.end == float("inf"))
    assert str(alarm).startswith(f"ring {open_cut.ring} at ")
    assert (severity, note) == ("CRITICAL", f"{CONSEQUENCES} consequences")
    assert (
        len([row for row in results["unreadable"] if "fails at line" in row["reason"]]) == network(1, repeat=20).broken
    )


def test_if_consequences_were_not_recognised_the_findings_would_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(desk.PLACE, raising=False)
    application = CALM
    script = application.script
    assert "cuts [RANGE 2 MINUTES]" in script
    monkeypatch.setattr(
        Nfmi,
        "script",
        script.replace("cuts [RANGE 2 MINUTES]", "cuts [RANGE 1 SECOND]").replace("'15 minutes'", "'30 minutes'"),
    )
    with Session(host="local") as session:
        results = run(application, session, tmp_path, 1, timeout=100)
    wrong = {check.what for check in application.checks(1, tmp_path, results) if not check.holds}
    assert wrong >= {"circuits that failed alone", "root alarms in the container", "escalated"}


def test_scripts_take_every_message_that_is_not_broken() -> None:
    made = network(4)
    rejected = 0
    for stream, messages in made.messages.items():
        read = getattr(formats, stream)
        for _, message in messages:
            assert TERMINATORS[stream] not in message
            try:
                fields = read(message)
                assert {"at", "source", "action"} <= fields.keys()
            except ValueError:
                rejected += 1
    assert rejected == made.broken > 0


def test_a_report_of_a_switch_has_its_fields() -> None:
    made = network(2)
    report = next(message for _, message in made.messages["switches"] if "REPT" in message and "SWLVL" in message)
    fields = formats.switches(report)
    names = ("hwlvl", "swlvl", "event", "address", "time", "alarm_type", "source")
    assert [fields[name] for name in names] == ["0", "RPI", "57347", "H'8311", "46:16.8", "REPT", "ARL-C"]
    with pytest.raises(ValueError, match=r'rept: pattern\("SWLVL="\) fails at line 2, column'):
        formats.switches(report.replace("SWLVL", "SW"))


def test_small_micro_batches_of_buckets_that_are_restored_each_time_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(desk.PLACE, raising=False)
    with Session(host="local", buckets=2, limit=300) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = True
        results = run(CALM, session, tmp_path, 3, timeout=100)
    assert [check for check in CALM.checks(3, tmp_path, results) if not check.holds] == []
