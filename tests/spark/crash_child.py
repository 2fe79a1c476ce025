"""Run one session to its end; started by the crash tests as a process of its own, so that it can be killed."""

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headrace.hosts.spark.host import SparkDeployment
from headrace.hosts.spark.starting import scratch
from headrace.session import Listing, Session
from headrace.storage import owner

#: Micro-batches of one process in which parcels move.
MOVES = 12
#: Queries whose keys may be in several buckets.
JOINS = ("pairs", "triples")
TREES = ("((x y) z)", "(x (y z))", "((x z) y)", "(x y z)")


def change(session: Session, plan: str) -> None:
    """Change the plan of a query once some tuples are there; an earlier change first comes to its end."""
    log, began = session.deployment.control.migrations, session.statistics().batch
    wait_until(lambda: session.statistics().batch > began + 2, 60)
    wait_until(lambda: all(migration.ended is not None for migration in log.all()), 60)
    tree, _, way = plan.partition(" USING ")
    session.execute(f"ALTER QUERY triples MIGRATE TO '{tree}' USING {way}")


def replace(session: Session, script: str) -> None:
    """Run another script once some tuples are there."""
    began = session.statistics().batch
    wait_until(lambda: session.statistics().batch > began + 2, 60)
    with open(script) as file:
        session.execute(file.read())
    Path(script).with_suffix(".done").touch()


def move(session: Session, queries: str) -> None:
    """Move parcels of these queries back and forth, a third of them at a time; change the number of buckets, too.

    Joins have some in several buckets at a time, and buckets of the join of three streams run different trees.
    """
    chance, deployment, began = random.Random(os.getpid()), session.deployment, session.statistics().batch
    wait_until(lambda: session.statistics().batch > began + 2, 60)
    assert isinstance(deployment, SparkDeployment)
    for number in range(MOVES):
        before = deployment.delivery.commands
        if number % 2 == 0:
            session.execute(f"ALTER SYSTEM SET buckets = {chance.choice((2, 3, 5, 6))}")
        buckets = deployment.deployments.newest().in_use(deployment.buckets)
        for query in queries.split(","):
            parcels = ", ".join(map(str, chance.sample(range(256), 80)))
            splits = query in JOINS and chance.random() < 0.6
            where = "ALL BUCKETS" if splits else f"BUCKET {chance.choice(buckets)}"
            session.execute(f"MOVE PARCELS {parcels} OF {query} TO {where}")
        if "triples" in queries:
            tree, using = chance.choice(TREES), chance.choice(("MOVING STATE", "STEPWISE", "PARALLEL TRACK"))
            some = ", ".join(map(str, chance.sample(buckets, len(buckets) // 2)))
            session.execute(f"ALTER QUERY triples MIGRATE TO '{tree}' USING {using} IN BUCKETS {some}")
        wait_until(lambda: deployment.delivery.commands > before, 60)  # noqa: B023


def person(session: Session, said: str) -> None:
    """Ask, raise an event by hand, pause a stream and confirm what rules propose, noting what was done."""
    if session.running().draining:  # the process before was killed while it ended
        return
    began = session.statistics().batch
    wait_until(lambda: session.statistics().batch > began, 60)
    session.execute("ALTER STREAM ticks SET rate = 200; ALTER STREAM ticks PAUSE")
    for _ in range(3):
        number = random.SystemRandom().randrange(2**31)
        note(said, f"raise {number}")
        session.execute(f"RAISE EVENT called({number})")
        note(said, f"raised {number}")
        session.execute("DEMAND asked")
    session.execute("ALTER STREAM ticks RESUME")
    wait_until(lambda: session.statistics().batch > began + 6, 20)
    wait_until(lambda: proposals(session), 60)
    for key in proposals(session):
        session.execute(f"CONFIRM '{key}'")


def proposals(session: Session) -> list[object]:
    """Return the keys of what rules propose."""
    (listing,) = session.execute("SHOW PROPOSALS")
    assert isinstance(listing, Listing)
    return [row[0] for row in listing.rows]


def show_plans(session: Session, path: str) -> None:
    """Note the plans, a line for each, once buckets run different ones."""

    def plans() -> list[tuple[object, ...]]:
        (listing,) = session.execute("SHOW PLANS")
        assert isinstance(listing, Listing)
        return [row for row in listing.rows if row[0] == "triples"]

    wait_until(lambda: len(plans()) > 1, 150)
    for _, plan, chosen, *_, buckets in plans():
        note(path, f"{plan} by {chosen} in {buckets}")


def note(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


#: What a process does, by its options.
ACTIONS = {"change": change, "then": replace, "moving": move, "person": person, "plans": show_plans}


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
    for option in options:
        what, _, value = option.partition("=")
        if what in ACTIONS:
            ACTIONS[what](session, value)
    if "waiting" in options:  # until it is killed; a drained checkpoint takes no other queries
        session.deployment.wait()
    session.drain()


if __name__ == "__main__":
    main()
