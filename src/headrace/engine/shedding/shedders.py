"""The shedders of a running graph, by arc: they act before tuples are stored, and count what they see and drop.

All draws of an arc in one micro-batch come from one generator, seeded by the arc, the micro-batch and the place (a
bucket, or the work of an ingest task): a replay drops the same tuples, however they are cut into pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct

from headrace.commands.command import ShedAt
from headrace.engine.shedding.random import RandomShedder
from headrace.engine.shedding.semantic import Memory, SemanticShedder
from headrace.graph.graph import Arc
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import TS, WEIGHT

Shedder: TypeAlias = RandomShedder | SemanticShedder


class ShedSeen(Struct, frozen=True, array_like=True):
    """The number of tuples that came to an arc with a shedder, and how many of them it dropped."""

    reader: str
    port: int
    seen: int
    dropped: int


class ShedderMemory(Struct, frozen=True, array_like=True):
    """The memory of the shedder of an arc."""

    reader: str
    port: int
    memory: Memory


class Shedders:
    """The shedders of one engine, most of the time none; `active` is all that the path of tuples checks then."""

    def __init__(self) -> None:
        self.active = False
        self.settings: dict[Arc, ShedAt] = {}
        self._shedders: dict[Arc, Shedder] = {}
        self._counts: dict[Arc, list[int]] = {}
        self._draws: dict[Arc, np.random.Generator] = {}
        self._seed: tuple[object, ...] = ()

    def use(self, settings: Mapping[Arc, ShedAt]) -> None:
        """Use these settings from now on; a shedder that stays as it is keeps its memory."""
        before, self.settings = self.settings, dict(settings)
        kept = {
            arc: self._shedders[arc]
            for arc, setting in settings.items()
            if arc in self._shedders and before[arc] == setting
        }
        self._shedders = {
            arc: kept.get(arc) or build(setting, self._shedders.get(arc)) for arc, setting in settings.items()
        }
        self.active = bool(settings)

    def begin(self, *seed: object) -> None:
        """Begin a micro-batch."""
        self._seed, self._draws = seed, {}

    def forget(self) -> None:
        """Clear the memory of all shedders, so that nothing depends on what came before."""
        self._shedders = {arc: build(setting, None) for arc, setting in self.settings.items()}

    def screen(self, arc: Arc, page: Page) -> Page:
        """Return the rest of a page; where tuples have weights, the rest stands for those that were dropped."""
        setting, shedder, rows = self.settings[arc], self._shedders[arc], page.rows
        if isinstance(shedder, SemanticShedder) and shedder.attribute not in rows.columns:
            shedder = RandomShedder(setting.share)
        kept = shedder.kept(rows, self._drawn(arc))
        count = self._counts.setdefault(arc, [0, 0])
        count[0] += len(kept)
        remaining = int(kept.sum())
        count[1] += len(kept) - remaining
        if remaining < len(kept):
            rows = rows.filter(pl.Series(kept))
        if isinstance(shedder, RandomShedder) and remaining and setting.share and WEIGHT in rows.columns:
            rows = rows.with_columns(pl.col(WEIGHT) / (1.0 - setting.share))
        return page if rows is page.rows else Page(rows)

    def screen_all(self, arc: Arc, elements: Sequence[Element], *, tells_time: bool) -> list[Element]:
        """Return the rest of elements; where tuples tell the time, a bound replaces a dropped last tuple."""
        rest: list[Element] = []
        for element in elements:
            if not isinstance(element, Page):
                rest.append(element)
                continue
            page = self.screen(arc, element)
            if len(page):
                rest.append(page)
            if tells_time and (not len(page) or page.rows[TS][-1] != element.rows[TS][-1]):
                rest.append(Punctuation(int(element.rows[TS][-1])))
        return rest

    def take_counts(self) -> list[ShedSeen]:
        """Return what was seen and dropped since the last call."""
        counts, self._counts = self._counts, {}
        return [ShedSeen(*arc, *count) for arc, count in counts.items()]

    def remembered(self) -> list[ShedderMemory]:
        """Return what must survive a restart."""
        return [
            ShedderMemory(*arc, shedder.memory())
            for arc, shedder in self._shedders.items()
            if isinstance(shedder, SemanticShedder)
        ]

    def restore(self, remembered: Iterable[ShedderMemory]) -> None:
        """Continue from what `remembered` returned."""
        for kept in remembered:
            setting = self.settings.get((kept.reader, kept.port))
            if setting is not None and setting.shedding.attribute is not None:
                self._shedders[kept.reader, kept.port] = SemanticShedder(setting.shedding, setting.share, kept.memory)

    def _drawn(self, arc: Arc) -> np.random.Generator:
        draws = self._draws.get(arc)
        if draws is None:
            digest = hashlib.blake2b(repr((arc, self._seed)).encode(), digest_size=8).digest()
            draws = self._draws[arc] = np.random.Generator(np.random.PCG64(int.from_bytes(digest)))
        return draws


def build(setting: ShedAt, before: Shedder | None) -> Shedder:
    """Return the shedder of a setting; it keeps the sample of one `before` it that goes by the same values."""
    if setting.shedding.attribute is None:
        return RandomShedder(setting.share)
    memory = None
    if isinstance(before, SemanticShedder) and before.shedding == setting.shedding:
        memory = Memory(before.memory().sample)
    return SemanticShedder(setting.shedding, setting.share, memory)
