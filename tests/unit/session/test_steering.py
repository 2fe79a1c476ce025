"""ALTER STREAM ... SET rate, PAUSE and RESUME."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.hosts.local import LocalDeployment
from headrace.session import Message, Session
from headrace.testing.clock import VirtualClock

SCRIPT = """
    CREATE STREAM s (at TIMESTAMP, x INT) TIMESTAMP BY at
      FROM GENERATOR (rate 100, process 'constant', start '2026-01-01');
    CREATE STREAM other (at TIMESTAMP, x INT) TIMESTAMP BY at
      FROM GENERATOR (rate 100, process 'constant', start '2026-01-01');
    CREATE QUERY q AS SELECT x FROM s INTO MEMORY;
    CREATE QUERY o AS SELECT x FROM other INTO MEMORY;
"""
SECOND = 1_000_000


def run(session: Session, clock: VirtualClock, seconds: int) -> tuple[int, int]:
    """Let time pass; return how many tuples of both streams came."""
    before = len(session.results("q")), len(session.results("o"))
    assert isinstance(session.deployment, LocalDeployment)
    for _ in range(seconds):
        clock.advance(SECOND)
        while session.deployment.step():
            pass
    return len(session.results("q")) - before[0], len(session.results("o")) - before[1]


def opened(path: Path, now: int) -> tuple[Session, VirtualClock]:
    session = Session(path, host="local")
    assert isinstance(session.deployment, LocalDeployment)
    clock = VirtualClock(now)
    session.deployment.clock = session.deployment.delivery.clock = clock
    return session, clock


def test_a_stream_changes_its_rate_pauses_and_goes_on_also_after_restarts(tmp_path: Path) -> None:
    session, clock = opened(tmp_path, 0)
    with session:
        session.execute(SCRIPT)
        run(session, clock, 1)
        assert run(session, clock, 10) == (1000, 1000)
        (said,) = session.execute("ALTER STREAM s SET rate = 30")
        assert said == Message("stream s: its rate is 30 tuples per second")
        run(session, clock, 1)  # what was due at the old rate comes first
        assert run(session, clock, 10) == (300, 1000)
        (said,) = session.execute("ALTER STREAM s PAUSE")
        assert said == Message("stream s is paused; its rate is 30 tuples per second")
        run(session, clock, 1)
        assert run(session, clock, 10) == (0, 1000)
        now = clock.now()
    session, clock = opened(tmp_path, now)
    with session:
        session.start()
        assert run(session, clock, 5) == (0, 500), "a restart does not resume it"
        session.execute("ALTER STREAM s RESUME")
        run(session, clock, 1)
        assert run(session, clock, 10) == (300, 1000)
        session.execute("ALTER STREAM s SET rate = 200; ALTER STREAM s PAUSE; ALTER STREAM s RESUME")
        run(session, clock, 1)
        now = clock.now()
    session, clock = opened(tmp_path, now)
    with session:
        session.start()
        assert run(session, clock, 10) == (2000, 1000)
        session.drain(60)


def test_a_stream_that_is_created_again_begins_as_it_is_defined() -> None:
    session = Session(host="local")
    with session:
        session.execute(SCRIPT + "ALTER STREAM s PAUSE; DROP QUERY q; DROP STREAM s")
        session.execute(SCRIPT.partition("CREATE STREAM other")[0])
        stream = session.catalog.find("s")
        assert isinstance(session.deployment, LocalDeployment)
        steer = session.deployment.intake.deployments.newest().steering(stream)  # type: ignore[arg-type]
        assert steer is not None
        assert (steer.rate, steer.paused) == (None, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ALTER STREAM m PAUSE", "m is fed by MEMORY, not by GENERATOR"),
        ("ALTER STREAM q RESUME", "'q' is not a stream"),
        ("ALTER STREAM s SET rate = 0", "the rate must be a number above zero"),
        ("ALTER STREAM s SET rate = 'much'", "the rate must be a number above zero"),
        ("ALTER STREAM none PAUSE", "stream, table or query 'none' does not exist"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with Session(host="local") as session:
        session.execute(SCRIPT + "CREATE STREAM m (x INT) FROM MEMORY")
        with pytest.raises(HeadraceError) as raised:
            session.execute(text)
        assert raised.value.message == message
