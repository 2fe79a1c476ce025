"""Hints that belong to words in several places."""

from __future__ import annotations

TUMBLING = "write the window after the stream: FROM stream [RANGE 5 MINUTES]"
SPREAD = "leave it out: tuples are spread by the keys of joins and groups; ORDER BY rowtime orders results"
