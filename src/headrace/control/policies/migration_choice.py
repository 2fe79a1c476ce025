"""How a plan is changed: at once if nobody notices the pause, else in portions.

To a plan that costs no more, two tracks never take less work than a change at once: when they end, the new states hold
the same rows, each made by the new plan, and the old plan has run beside it for a window. So they are never chosen by
themselves. A user can ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.analysis.joins.migration_price import PORTION, Way

#: The share of a promised latency that a pause may take, and the pause if nothing is promised (seconds).
SHARE, PAUSE = 0.25, 0.25


def allowed_pause(latencies: Iterable[float]) -> float:
    """Return how long a change may hold up results, given the latencies that queries promise."""
    shortest = min(latencies, default=None)
    return PAUSE if shortest is None else SHARE * shortest


def allowed_portion(latencies: Iterable[float]) -> float:
    """Return how much longer micro-batches may take while a change goes on."""
    shortest = min(latencies, default=None)
    return PORTION if shortest is None else min(PORTION, SHARE * shortest)


def choose_way(ways: Sequence[Way], pause: float) -> Way:
    """Return the way with least work whose pause is allowed; stepwise if none is."""
    by_name = {way.how: way for way in ways}
    at_once = by_name["moving"]
    return at_once if at_once.pause <= pause else by_name["stepwise"]
