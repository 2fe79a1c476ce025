"""Operators that read the output of others: it comes in batches while those run, and not while the operator runs.

Gated and exhaustive service are therefore the same here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """The output of a child between two runs of its parent: `runs` batches, each from `served` tuples."""

    served: float  # N_i, tuples that the child serves in a run
    selectivity: float  # sigma_i, what goes to the parent of each
    service: float  # S_i
    cycle: float  # C_i, between two runs of the child
    gap: float  # V'', from the end of the child's last run to the parent's setup
    runs: float = 1.0  # k_i

    @property
    def tuples(self) -> float:
        return self.runs * self.served * self.selectivity  # (5.49)


def batch_waits(batches: tuple[Batch, ...], service: float, setup: float, *, before: float = 0.0) -> tuple[float, ...]:
    """Return the mean wait of each child's tuples at the parent.

    The parent serves them child by child in this order, `before` seconds after its setup.
    """
    waits = []
    for batch in batches:
        # (5.53, E-11). Fewer than one tuple a batch has nobody to wait for, where the formula would go below zero.
        fellows = max(0.0, batch.tuples - 1) / 2 * service
        unready = max(0.0, batch.served - 1 / batch.selectivity) / 2 * batch.service if batch.selectivity > 0 else 0.0
        waits.append(fellows + unready + (batch.runs - 1) / 2 * batch.cycle + batch.gap + setup + before)
        before += batch.tuples * service  # those of an earlier child are served first; the printed form leaves this out
    return tuple(waits)
