"""Headrace: a data stream management system whose pipeline runs on Spark Structured Streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client import connect
    from headrace.session import Session

__version__ = "0.1.0"
__all__ = ["Session", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    # `import headrace` stays cheap: Spark's workers and the launcher import parts of it many times.
    if name == "Session":
        from headrace.session import Session

        return Session
    if name == "connect":
        from headrace.client import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
