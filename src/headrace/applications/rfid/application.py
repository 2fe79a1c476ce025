"""Products in cases: pairs of readings in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.applications.application import Application, Check, Results
from headrace.applications.rfid.warehouse import Warehouse, warehouse, write


@dataclass(frozen=True)
class Rfid(Application):
    """The case of each product, the seal of each case, and the products missing at the gate."""

    cases: int = 40

    name = "rfid"
    title = "Products packed into cases, and what is missing when they leave"
    folder = "rfid"
    shown = ("missing",)
    watched = ("packed", "closed", "shipped")

    def prepare(self, folder: Path, seed: int) -> None:
        write(self._warehouse(seed), folder / "data")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Check that each product is in its case, each seal on its case, and each loss is reported."""
        planted = self._warehouse(seed)

        def pairs(query: str, first: str, second: str) -> list[tuple[object, object]]:
            return sorted((row[first], row[second]) for row in results[query])

        return (
            Check("products missing, by case", sorted(planted.missing), pairs("missing", "box", "tag")),
            Check("products in their case", sorted(planted.packed), pairs("packed", "box", "tag")),
            Check("seals on their case", sorted(planted.closed), pairs("closed", "box", "seal")),
            Check("items counted at the gate, by case", sorted(planted.shipped), pairs("shipped", "box", "items")),
        )

    def _warehouse(self, seed: int) -> Warehouse:
        return warehouse(seed, cases=self.cases)
