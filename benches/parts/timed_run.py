"""`headrace run` that tells at its end when each part of it was over."""

from __future__ import annotations

import sys

from benches.parts.moments import Moments

if __name__ == "__main__":
    moments = Moments()
    sys.argv[0] = "headrace"
    from headrace.cli.main import main

    moments.watch_spark()
    try:
        main()
    finally:
        moments.note("the command is over")
        moments.tell()
