"""The actions of a rule for the detections of one micro-batch; a repeated action has the same key."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl
from msgspec import Struct

from headrace.catalog.definitions import FAILED
from headrace.model.action import CallFunction, Reaction
from headrace.model.calendar import beyond_calendar, python_rows
from headrace.model.page import Page
from headrace.model.schema import HIDDEN, SEQ, TS
from headrace.operators.expressions.evaluate import compile_expr
from headrace.redaction import redact

#: A row of <rule>.failed: key, action, reason, tries, instant, detection.
Failure: TypeAlias = tuple[str, str, str, int, int, str]


class Firing(Struct, frozen=True):
    """Detections of a rule in timestamp order.

    `rows` has the visible columns as Arrow IPC; `arguments` has, for each action, those that it names.
    """

    rule: str
    reaction: Reaction
    rows: bytes
    instants: list[int]
    keys: list[str]
    arguments: list[bytes | None]

    def detections(self) -> list[dict[str, Any]]:
        """Return the detections as Python values."""
        return python_rows(Page.decode(self.rows).rows)

    def called_with(self) -> list[Sequence[tuple[Any, ...]] | None]:
        """Return for each action the values of its arguments by detection; None: the whole detection."""
        frames = (None if data is None else Page.decode(data).rows.drop("") for data in self.arguments)
        return [None if rows is None else [tuple(row.values()) for row in _each(rows)] for rows in frames]

    def unfit(self) -> list[Mapping[int, str]]:
        """Return for each action the detections for which no function can be called, with the reason."""
        frames = (Page.decode(self.rows if data is None else data).rows for data in self.arguments)
        reasons = (beyond_calendar(rows) for rows in frames)
        return [{} if why is None else {at: text for at, text in enumerate(why) if text} for why in reasons]


def in_order(pages: Sequence[Page]) -> pl.DataFrame | None:
    """Return detections by timestamp, then by place in the stream or content: however they were cut into pages."""
    frames = [page.rows for page in pages if len(page)]
    if not frames:
        return None
    rows = pl.concat(frames)
    by = [SEQ] if SEQ in rows.columns else [name for name in rows.columns if name not in HIDDEN]
    return rows.sort([TS, *by], maintain_order=True)


def fire(rule: str, reaction: Reaction, rows: pl.DataFrame) -> Firing:
    """Return what a rule does for these detections."""
    arguments = [
        _arguments(action.args, rows) if isinstance(action, CallFunction) and action.args is not None else None
        for action in reaction.actions
    ]
    visible = rows.drop(HIDDEN, strict=False)
    return Firing(rule, reaction, Page(visible).encode(), rows[TS].to_list(), list(_keys(rule, rows)), arguments)


def single(firing: Firing, at: int) -> Firing:
    """Return what a rule does for one of its detections."""
    pages = [None if data is None else Page.decode(data).rows[at : at + 1] for data in firing.arguments]
    return Firing(
        firing.rule,
        firing.reaction,
        Page(Page.decode(firing.rows).rows[at : at + 1]).encode(),
        firing.instants[at : at + 1],
        firing.keys[at : at + 1],
        [None if rows is None else Page(rows).encode() for rows in pages],
    )


def key_of(detection: str, number: int, action: str) -> str:
    """Return the key of one action for one detection."""
    return hashlib.blake2b(f"{detection}/{number}/{action}".encode(), digest_size=16).hexdigest()


def failure(firing: Firing, at: int, number: int, row: Mapping[str, Any], why: str, tries: int) -> Failure:
    """Return the row of <rule>.failed for an action that was given up."""
    text = firing.reaction.texts[number]
    return key_of(firing.keys[at], number, text), redact(text), redact(why), tries, firing.instants[at], as_json(row)


def failed_frame(failures: Sequence[Failure]) -> pl.DataFrame:
    """Return failures as rows of a side stream."""
    frame = pl.DataFrame(list(failures), schema={**FAILED.polars(), "detected": pl.Int64()}, orient="row")
    return frame.with_columns(pl.col("detected").cast(pl.Datetime("us")))


def as_json(row: Mapping[str, Any]) -> str:
    """Return a detection as text."""
    return json.dumps(row, default=str)


def _keys(rule: str, rows: pl.DataFrame) -> Iterator[str]:
    """Yield a hash of the rule and of each detection; equal detections of a micro-batch are numbered.

    Detections of one instant come in one micro-batch, so the numbers do not depend on where micro-batches begin.
    """
    repeats: Counter[str] = Counter()
    hidden = [name for name in (TS, SEQ) if name in rows.columns]
    for row in python_rows(rows.select(hidden + [name for name in rows.columns if name not in HIDDEN])):
        content = as_json({"rule": rule, **row})
        yield hashlib.blake2b(f"{repeats[content]}{content}".encode(), digest_size=16).hexdigest()
        repeats[content] += 1


def _each(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one value for each row, also if there is no column."""
    return python_rows(rows) if rows.width else [{} for _ in range(rows.height)]


def _arguments(args: Sequence[Any], rows: pl.DataFrame) -> bytes:
    # the empty column keeps the number of rows where there is no argument
    values = [compile_expr(arg).alias(str(number)) for number, arg in enumerate(args)]
    return Page(rows.select(pl.col(TS).alias(""), *values)).encode()
