"""Run one session to its end; started by the crash tests as a process of its own, so that it can be killed."""

import sys

from headrace.session import Session


def main() -> None:
    checkpoint, script, limit = sys.argv[1:4]
    with open(script) as file:
        text = file.read()
    session = Session(checkpoint, limit=int(limit), buckets=4)
    session.execute(text)
    session.drain()


if __name__ == "__main__":
    main()
