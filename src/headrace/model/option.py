"""The value of an option in a statement, such as `path 'data'` or `latency '2 s'`."""

from __future__ import annotations

from typing import TypeAlias

Option: TypeAlias = str | int | float | bool
