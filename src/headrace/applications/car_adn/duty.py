"""The logs of the police and of the ambulances: files with a line for each notified accident."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

LOG = Path("out") / "police.jsonl"
AMBULANCES = Path("out") / "ambulances.jsonl"


def police(
    exp_way: int, dir: int, lane: int, segment: int, stopped: int, slowed: int, at: datetime, *, key: str
) -> None:
    """Log an accident."""
    call = {
        "key": key,
        "exp_way": exp_way,
        "dir": dir,
        "lane": lane,
        "segment": segment,
        "stopped": stopped,
        "slowed": slowed,
        "at": f"{at}",
    }
    _write(LOG, call)


def ambulance(station: str, exp_way: int, dir: int, segment: int, at: datetime, *, key: str) -> None:
    """Log that an ambulance drives to an accident."""
    call = {"key": key, "station": station, "exp_way": exp_way, "dir": dir, "segment": segment, "at": f"{at}"}
    _write(AMBULANCES, call)


def _write(path: Path, call: Mapping[str, Any]) -> None:
    """Add a call to a log. Rules call at least once, so a call with a known key is ignored."""
    if any(known["key"] == call["key"] for known in calls(Path(), path)):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.write(json.dumps(call) + "\n")


def calls(folder: Path, path: Path = LOG) -> list[dict[str, Any]]:
    """Return all logged calls."""
    log = folder / path
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
