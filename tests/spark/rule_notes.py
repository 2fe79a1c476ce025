"""What rules of the crash tests call: a condition, and notes of the detection and its key in a file."""

from __future__ import annotations

import json
import os
from typing import Any


def is_high(n: int) -> bool:
    return n > 990


def note(found: dict[str, Any], key: str) -> None:
    _write(os.environ["RULE_NOTES"], json.dumps([key, found], default=str) + "\n")


def confirmed(n: int, key: str) -> None:
    _write(f"{os.environ['RULE_NOTES']}.confirmed", json.dumps([key, n]) + "\n")


def _write(path: str, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())  # one write, so that a kill leaves a whole line or none
    finally:
        os.close(handle)
