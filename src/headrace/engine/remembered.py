"""What an engine must find again after a restart, besides the state of its operators."""

from __future__ import annotations

from msgspec import Struct

from headrace.engine.feedback.desires import Desire
from headrace.engine.feedback.guards import Guard
from headrace.engine.scheduling.master import Turns
from headrace.engine.shedding.shedders import ShedderMemory


class Remembered(Struct, frozen=True, kw_only=True):
    """The memory of an engine between two micro-batches; part of every checkpoint."""

    ends: dict[str, int] = {}  # the bounds of the ends of the graph: operators do not repeat a bound
    owed: dict[str, int] = {}  # bounds of merging operators that follow the tuples on their way
    guards: list[Guard] = []
    desires: list[Desire] = []
    shedders: list[ShedderMemory] = []
    turns: Turns = Turns()
