"""Run one session to its end; started as a process of its own, so that it can be killed."""

import sys

from headrace.session import Session


def main() -> None:
    checkpoint, script = sys.argv[1:3]
    with open(script) as file:
        text = file.read()
    session = Session(checkpoint, limit=400, buckets=4, interval=0)
    session.execute(text)
    session.drain()


if __name__ == "__main__":
    main()
