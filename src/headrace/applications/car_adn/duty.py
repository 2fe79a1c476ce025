"""The police's duty book: a file with a line for each accident that it was told of."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

BOOK = Path("out") / "police.jsonl"


def police(
    exp_way: int, dir: int, lane: int, segment: int, stopped: int, slowed: int, at: datetime, *, key: str
) -> None:
    """Write down an accident; rules call at least once, so what is in the book already is not written again."""
    if any(call["key"] == key for call in calls(Path())):
        return
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
    BOOK.parent.mkdir(parents=True, exist_ok=True)
    with BOOK.open("a") as book:
        book.write(json.dumps(call) + "\n")


def calls(folder: Path) -> list[dict[str, Any]]:
    """What is in the book."""
    book = folder / BOOK
    return [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []
