"""Run one session to its end; started by the crash tests as a process of its own, so that it can be killed."""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from headrace.hosts.spark.starting import scratch
from headrace.session import Session
from headrace.storage import owner

TREES = ("(x (y z))", "((x z) y)", "((x y) z)", "mjoin")
#: How plans change, by the name that the list of changes gives it.
STRATEGIES = {"stepwise": "STEPWISE WITHIN '20 us'", "parallel": "PARALLEL TRACK", "moving": "MOVING STATE"}
#: Changes of plan of one process, each in a micro-batch of its own.
CHANGES = 6
#: Micro-batches of one process in which parcels move.
MOVES = 12


def migrate(session: Session) -> None:
    """Change the plan of a query now and then, in the way that earlier processes and this one used least."""
    log = session.deployment.control.migrations
    for _ in range(CHANGES):
        done = log.all()
        used = Counter[str](migration.how for migration in done)
        how = min(STRATEGIES, key=lambda name: used[name])
        tree = TREES[len(done) % len(TREES)]
        session.execute(f"ALTER QUERY triples MIGRATE TO '{tree}' USING {STRATEGIES[how]}")
        wait_until(lambda: len(log.all()) > len(done), 60)  # noqa: B023  the first may be planned before the kill


def move(session: Session, queries: str) -> None:
    """Move parcels of these queries back and forth, a third of them at a time, in every micro-batch."""
    chance, buckets = random.Random(os.getpid()), session.deployment.buckets
    for _ in range(MOVES):
        before = session.deployment.delivery.commands
        for query in queries.split(","):
            parcels = ", ".join(map(str, chance.sample(range(64 * len(buckets)), 80)))
            session.execute(f"MOVE PARCELS {parcels} OF {query} TO BUCKET {chance.choice(buckets)}")
        wait_until(lambda: session.deployment.delivery.commands > before, 60)  # noqa: B023


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
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
    for option in options:
        if option.startswith("moving="):
            move(session, option.removeprefix("moving="))
    if "waiting" in options:  # until it is killed; a drained checkpoint takes no other queries
        session.deployment.wait()
    session.drain()


if __name__ == "__main__":
    main()
