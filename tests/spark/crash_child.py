"""Run one session to its end; started by the crash tests as a process of its own, so that it can be killed."""

import sys
import time

from headrace.hosts.spark.starting import scratch
from headrace.session import Session
from headrace.storage import owner

#: Changes of plan, one in each micro-batch.
CHANGES = (
    "'(x (y z))' USING MOVING STATE",
    "'((x z) y)' USING STEPWISE WITHIN '20 us'",
    "'((x z) y)' USING MOVING STATE",
    "'((x y) z)' USING PARALLEL TRACK",
    "'mjoin' USING MOVING STATE",
    "'(x (y z))' USING STEPWISE WITHIN '100 us'",
)


def migrate(session: Session) -> None:
    """Change the plan of a query now and then, from wherever an earlier process was."""
    done = len(session.deployment.control.migrations.all())
    for number in range(done, done + len(CHANGES)):
        before = session.statistics().batch
        session.execute(f"ALTER QUERY triples MIGRATE TO {CHANGES[number % len(CHANGES)]}")
        deadline = time.monotonic() + 20
        while session.statistics().batch <= before and time.monotonic() < deadline:
            time.sleep(0.05)


def main() -> None:
    checkpoint, script, limit, *options = sys.argv[1:]
    if "unlocked" in options:  # as on machines whose locks do not reach each other, and which share no scratch folders
        lock = owner.lock
        owner.lock = lambda file: lock(file) or True
        scratch.sweep = lambda parent, now: 0
    with open(script) as file:
        text = file.read()
    session = Session(checkpoint, limit=int(limit), buckets=4)
    session.execute(text)
    if "migrating" in options:
        migrate(session)
    if "waiting" in options:  # until it is killed; a drained checkpoint takes no other queries
        session.deployment.wait()
    session.drain()


if __name__ == "__main__":
    main()
