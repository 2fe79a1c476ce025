"""Files that a repair leaves out: what was not read of them is not read, and a bad record says so."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.storage import sealed


def read_left_out(log: Path) -> frozenset[int]:
    """Return the numbers of the entries of a list of files that are left out."""
    data = sealed.read_if_exists(_beside(log))
    return frozenset() if data is None else frozenset(msgspec.json.decode(data, type=list[int]))


def leave_out(log: Path, numbers: frozenset[int]) -> None:
    """Leave these entries of a list of files out from the next start on."""
    sealed.replace(_beside(log), msgspec.json.encode(sorted(read_left_out(log) | numbers)))


def _beside(log: Path) -> Path:
    return log.with_name(f"{log.name.removesuffix('.jsonl')}-left-out.json")
