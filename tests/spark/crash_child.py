"""Run one session to its end; started by the crash tests as a process of its own, so that it can be killed."""

import sys

from headrace.hosts.spark.starting import scratch
from headrace.session import Session
from headrace.storage import owner


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
    if "waiting" in options:  # until it is killed; a drained checkpoint takes no other queries
        session.deployment.wait()
    session.drain()


if __name__ == "__main__":
    main()
