"""Rules that propose: nothing is done until a person agrees, at least once, with the key of the detection."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.driver.rules import reactions
from headrace.errors import HeadraceError, NameFault, NotSupported, SyntaxFault
from headrace.hosts.local import LocalDeployment
from headrace.model.time import MINUTE
from headrace.session import Session
from headrace.session.outcome import Listing
from headrace.testing.clock import VirtualClock

NEW_YEAR = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY detour AS SELECT k FROM s INTO MEMORY;
CREATE RULE r ON s CONFIRM WITHIN '10 minutes' WHEN s.k > 0 DO CALL act(s.k), STOP QUERY detour
"""


class Run:
    """A session whose clock a test turns, and what its rules have done."""

    def __init__(self, directory: Path, *, script: str = SCRIPT) -> None:
        self.acts: list[tuple[int, str]] = []
        self.session = Session(directory, host="local")
        self.clock = VirtualClock()
        deployment = self.session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = deployment.delivery.clock = self.clock
        self.deployment = deployment
        self.session.register("act", lambda k, key: self.acts.append((k, key)))
        self.session.execute(script)

    def feed(self, *ks: int, second: int = 0) -> None:
        at = NEW_YEAR + dt.timedelta(seconds=second)
        self.session.push("s", [{"at": at + dt.timedelta(seconds=i), "k": k} for i, k in enumerate(ks)])
        self.step()

    def step(self) -> None:
        self.session.start()
        while self.deployment.step():
            pass

    def proposals(self) -> list[dict[str, Any]]:
        (listing,) = self.session.execute("SHOW PROPOSALS")
        assert isinstance(listing, Listing)
        return [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]


def test_nothing_is_done_until_somebody_agrees_and_then_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.feed(0, 1, 2)
    first, second = run.proposals()
    assert [json.loads(each["detection"]) for each in (first, second)] == [
        {"at": "2026-01-01 00:00:01", "k": 1},
        {"at": "2026-01-01 00:00:02", "k": 2},
    ]
    assert (first["rule"], first["actions"]) == ("r", "CALL act(s.k), STOP QUERY detour")
    assert not run.acts
    run.session.execute(f"REJECT '{first['key']}'")
    assert [each["key"] for each in run.proposals()] == [second["key"]]
    assert not run.acts
    run.session.execute(f"CONFIRM '{second['key'][:8]}'")
    assert [k for k, _ in run.acts] == [2]
    assert run.proposals() == []
    run.step()
    assert [query.query for query in run.session.running().queries] == ["r"], "detour was stopped"
    with pytest.raises(NameFault, match="was confirmed before"):
        run.session.execute(f"CONFIRM '{second['key']}'")
    with pytest.raises(NameFault, match="was rejected before"):
        run.session.execute(f"CONFIRM '{first['key']}'")
    with pytest.raises(NameFault, match="no proposal 'ffff'"):
        run.session.execute("CONFIRM 'ffff'")
    run.session.stop()


def test_a_proposal_waits_over_a_restart_and_has_the_key_that_a_rule_without_confirm_has(tmp_path: Path) -> None:
    plain = Run(tmp_path / "plain", script=SCRIPT.replace("CONFIRM WITHIN '10 minutes'", ""))
    plain.feed(7)
    plain.session.stop()
    first = Run(tmp_path / "asking")
    first.feed(7)
    (proposal,) = first.proposals()
    first.session.stop()
    second = Run(tmp_path / "asking")
    assert second.proposals() == [proposal]
    second.session.execute(f"CONFIRM '{proposal['key']}'")
    assert second.acts == plain.acts
    second.session.stop()
    third = Run(tmp_path / "asking")
    assert (third.proposals(), third.acts) == ([], [])
    third.session.stop()


def test_what_nobody_confirms_in_time_is_kept_as_failed(tmp_path: Path) -> None:
    lost = "CREATE QUERY lost AS SELECT key, action, reason, tries FROM r.failed INTO MEMORY"
    run = Run(tmp_path, script=f"{SCRIPT}; {lost}")
    run.feed(1)
    (proposal,) = run.proposals()
    run.clock.advance(10 * MINUTE - 1)
    assert len(run.proposals()) == 1
    run.clock.advance(1)
    assert run.proposals() == []
    with pytest.raises(NameFault, match="was expired before"):
        run.session.execute(f"CONFIRM '{proposal['key']}'")
    run.session.drain(30)
    assert not run.acts
    rows = run.session.results("lost")
    assert [(row["action"], row["reason"], row["tries"]) for row in rows] == [
        ("CALL act(s.k)", "nobody confirmed it within 10 min", 0),
        ("STOP QUERY detour", "nobody confirmed it within 10 min", 0),
    ]
    run.session.stop()


@pytest.mark.parametrize("stops_in", ["_switch", "_carry_out"])
def test_a_decision_is_carried_out_by_the_next_process_if_this_one_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_in: str
) -> None:
    run = Run(tmp_path)
    run.feed(5)
    (proposal,) = run.proposals()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reactions.Reactions, stops_in, stop)
        with pytest.raises(KeyboardInterrupt):
            run.session.execute(f"CONFIRM '{proposal['key']}'")
    run.session.stop()
    again = Run(tmp_path)
    again.step()
    again.deployment.delivery.reactions.outbox.settle(10)
    assert [k for k, _ in again.acts] == [5]
    assert again.proposals() == []
    again.session.stop()


def test_a_dropped_rule_proposes_nothing_more(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.feed(1, 2)
    first, second = run.proposals()
    run.session.execute("DROP RULE r")
    assert run.proposals() == []
    with pytest.raises(NameFault, match="was dropped"):
        run.session.execute(f"CONFIRM '{first['key']}'")
    run.session.execute(f"REJECT '{second['key']}'")
    assert not run.acts
    run.session.stop()


def test_a_disabled_rule_proposes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.session.execute("DISABLE RULE r")
    run.feed(1)
    assert run.proposals() == []
    run.session.execute("ENABLE RULE r")
    run.feed(2, second=10)
    assert len(run.proposals()) == 1
    run.session.stop()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE RULE q ON s CONFIRM WITHIN '1 s' DO INSERT INTO MEMORY", NotSupported, "INSERT cannot wait"),
        ("CREATE RULE q ON s CONFIRM WITHIN '1 s' DO RAISE EVENT e(s.k)", NotSupported, "RAISE EVENT cannot wait"),
        ("CREATE RULE q ON s CONFIRM WITHIN '0 s' DO CALL act", SyntaxFault, "more time than none"),
        ("CREATE RULE q ON s CONFIRM '1 s' DO CALL act", SyntaxFault, "expected WITHIN"),
        ("CONFIRM r", SyntaxFault, "expected the key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, error: type[HeadraceError], message: str) -> None:
    run = Run(tmp_path)
    run.session.execute("CREATE EVENT e (k INT)")
    with pytest.raises(error, match=message):
        run.session.execute(text)
    run.session.stop()


def test_a_rule_promises_how_late_its_detections_are() -> None:
    checks: list[Callable[[Session], str]] = [
        lambda session: str(session.running().promises()["r"].latency),
        lambda session: str(session.execute("DESCRIBE r")),
    ]
    with Session(host="local") as session:
        session.execute(SCRIPT.partition("CREATE RULE")[0])
        session.register("act", print)
        session.execute("CREATE RULE r WITH (latency '2 s' BEST EFFORT, tries 2) ON s DO CALL act")
        for check in checks:
            assert "2" in check(session)
        with pytest.raises(SyntaxFault, match="latency"):
            session.execute("CREATE RULE p WITH (latency '-2 s') ON s DO CALL act")
