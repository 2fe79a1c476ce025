"""An archive of your own, from which IMPUTE takes values that are missing.

    SELECT at, id, IMPUTE(speed USING 'python:archive:usual_speed' ON id) AS speed FROM readings;

The function gets the keys of a tuple and returns a value, or None if it has none. It is asked once for each key that misses a value in a page,
and may take its time: a database or a service could stand behind it. `headrace run` finds the module beside the script.
"""

from __future__ import annotations

USUAL = {1: 50.0, 2: 65.0, 3: 30.0}


def usual_speed(detector: int) -> float | None:
    """What a detector mostly sees."""
    return USUAL.get(detector)
