"""What a house can do: each action is a line in a log, once for each key."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

LOG = Path("out") / "house.jsonl"


def light(home: int, room: str, at: datetime, *, key: str) -> None:
    """Switch the light of a room on."""
    _act("light", key, home=home, room=room, at=f"{at}")


def switch_off(home: int, since: datetime, *, key: str) -> None:
    """Switch the stove off."""
    _act("stove", key, home=home, since=f"{since}")


def alarm(home: int, room: str, *, key: str) -> None:
    """Call the police."""
    _act("alarm", key, home=home, room=room)


def actions(folder: Path, what: str) -> list[dict[str, Any]]:
    """Return what was done of a kind. Rules call at least once, so an action with a known key is the same one."""
    log = folder / LOG
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return list({line["key"]: line for line in lines if line["what"] == what}.values())


def _act(what: str, key: str, **values: Any) -> None:
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as log:
        log.write(json.dumps({"what": what, "key": key, **values}) + "\n")
