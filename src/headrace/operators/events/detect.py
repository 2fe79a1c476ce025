"""Detect a complex event in several inputs."""

from __future__ import annotations

from headrace.operators.events.chain import Chain, is_chain
from headrace.operators.events.detection import Detection
from headrace.operators.events.detector import Detector
from headrace.operators.events.filled import Filled, is_filled
from headrace.operators.operator import Operator


class Detect(Detection, frozen=True, tag="detect"):
    """A detection: on columns if the event is a chain of tuples, or a repetition between two; else by a node each."""

    def build(self) -> Operator:
        if is_chain(self):
            return Chain(self)
        return Filled(self) if is_filled(self) else Detector(self)
