"""Verdicts from numbers: whether a claim holds, and whether a number is near a published one."""

from __future__ import annotations

import math

from headrace.experiments.experiment import Range, Verdict
from headrace.experiments.sample import Sample


def claim(holds: bool) -> Verdict:
    """Judge a claim in words, expressed as a condition on our numbers."""
    return "confirmed" if holds else "not confirmed"


def near(ours: Sample | float, published: float | Range, tolerance: float) -> Verdict:
    """Judge whether a number is near a published one.

    It is confirmed within a share of the published number and two standard errors of ours, and consistent within three
    times that share. If the tolerance would exceed a third, the run was too short to compare.
    """
    mean, noise = (ours.mean, 2 * ours.error) if isinstance(ours, Sample) else (ours, 0.0)
    low, high = (published.low, published.high) if isinstance(published, Range) else (published, published)
    if math.isnan(mean) or tolerance > 1 / 3:  # nothing came out, or too little
        return "not comparable"
    off = max(low - mean, mean - high, 0.0)
    allowed = tolerance * max(abs(low), abs(high))
    if off <= allowed + noise:
        return "confirmed"
    return "consistent" if off <= 3 * allowed + noise else "not confirmed"


def fitted(ours: Sample | float, published: float | Range, tolerance: float) -> Verdict:
    """Judge a published number to which a parameter of ours was fitted: it predicts nothing, but must come out."""
    verdict = near(ours, published, tolerance)
    return "calibrated" if verdict == "confirmed" else verdict


def between(published: float, first: float, second: float) -> Verdict:
    """Judge a published number whose setting is not exactly known: consistent if it lies between two of ours."""
    return "consistent" if min(first, second) <= published <= max(first, second) else "not confirmed"


def exact(ours: float, expected: float) -> Verdict:
    """Judge a closed form; only rounding of the last digits is tolerated."""
    return claim(abs(ours - expected) <= 1e-9 * max(1.0, abs(expected)))


def below(ratios: Sample, limit: float = 1.0) -> Verdict:
    """Judge an order: confirmed if the ratio is below the limit with every seed, consistent if only on average."""
    if ratios.high < limit:
        return "confirmed"
    return "consistent" if ratios.mean < limit else "not confirmed"


def within(ours: Range, published: Range, tolerance: float) -> Verdict:
    """Judge a range that depends on random draws.

    It is confirmed within the published range and a share of it, and consistent if both overlap.
    """
    if ours.low >= published.low * (1 - tolerance) and ours.high <= published.high * (1 + tolerance):
        return "confirmed"
    return "consistent" if ours.low <= published.high and published.low <= ours.high else "not confirmed"
