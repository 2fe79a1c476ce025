"""Products in cases: pairs of readings in the order in which things happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.applications.application import Application, Check, Results
from headrace.applications.rfid.warehouse import Warehouse, warehouse, write


@dataclass(frozen=True)
class Rfid(Application):
    """Where each product is, which seal closes which case, and what is missing at the gate."""

    cases: int = 40

    name = "rfid"
    title = "Products packed into cases, and what is missing when they leave"
    folder = "rfid"
    shown = ("missing",)
    watched = ("packed", "closed", "shipped")

    def prepare(self, folder: Path, seed: int) -> None:
        write(self._warehouse(seed), folder / "data")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Each product in its case, each seal on its case, each loss."""
        made = self._warehouse(seed)

        def pairs(query: str, one: str, other: str) -> list[tuple[object, object]]:
            return sorted((row[one], row[other]) for row in results[query])

        return (
            Check("products missing, by case", sorted(made.missing), pairs("missing", "box", "tag")),
            Check("products in their case", sorted(made.packed), pairs("packed", "box", "tag")),
            Check("seals on their case", sorted(made.closed), pairs("closed", "box", "seal")),
            Check("items counted at the gate, by case", sorted(made.shipped), pairs("shipped", "box", "items")),
        )

    def _warehouse(self, seed: int) -> Warehouse:
        return warehouse(seed, cases=self.cases)
