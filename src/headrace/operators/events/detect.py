"""Detect a complex event in several inputs."""

from __future__ import annotations

from headrace.operators.events.chain import Chain, is_chain
from headrace.operators.events.detection import Detection
from headrace.operators.events.detector import Detector
from headrace.operators.operator import Operator


class Detect(Detection, frozen=True, tag="detect"):
    """A detection, run on columns if the event is a chain of tuples, else by a node per operator of the event."""

    def build(self) -> Operator:
        return Chain(self) if is_chain(self) else Detector(self)
