"""The function that a rule calls: it notes its key and arguments in a file beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def note(host: int, at: Any, key: str) -> None:
    line = json.dumps([key, host, str(at)]) + "\n"
    handle = os.open(Path(__file__).with_name("notes.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())  # in one write, so that a kill leaves a whole line or none
    finally:
        os.close(handle)
