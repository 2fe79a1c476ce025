"""The log of a server: a file in the checkpoint, as text or as lines of JSON."""

from __future__ import annotations

import datetime
import logging
import logging.handlers
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from headrace.redaction import redact
from headrace.storage.disk import make_directory, open_private
from headrace.storage.scratch import scratch_of

LOG_FILE = "server.log"
#: A log is renamed at this size; so many old ones are kept.
_BYTES, _OLD = 10_000_000, 3
#: What every record has; what others add are fields of the line.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class Form(StrEnum):
    """How a log is written."""

    text = "text"
    json = "json"


class Lines(logging.Formatter):
    """A line of JSON for each event: time, level, event, where it comes from, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "ts": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": redact(record.getMessage()),
            "logger": record.name,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            line["traceback"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


class Text(logging.Formatter):
    """A line for each event, for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A file that only this user can read."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding="utf-8", opener=open_private)


def log_to(checkpoint: Path, form: Form) -> Path:
    """Let the events of this process go to the log of a checkpoint; return its path."""
    folder = scratch_of(checkpoint)
    make_directory(folder)
    handler = _PrivateFile(folder / LOG_FILE, maxBytes=_BYTES, backupCount=_OLD)
    handler.setFormatter(Lines() if form is Form.json else Text())
    logger = logging.getLogger("headrace")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn").addHandler(handler)
    logging.getLogger("uvicorn").propagate = False
    return folder / LOG_FILE
