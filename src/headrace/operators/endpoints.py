"""Where a graph meets the world: scans that feed it, outputs that leave it, and the cuts where pages change process.

None of these computes anything: the engine pushes into a `Scan` or `Receive` and collects what reaches an `Output` or
`Exchange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_name
from headrace.model.grid import Grid
from headrace.model.page import Element, Page
from headrace.model.stint import Stint
from headrace.operators.operator import Operator
from headrace.operators.spec import Order, Spec
from headrace.operators.text import listed


class _Edge(Spec, frozen=True):
    """What all edges share: they pass everything on."""

    def build(self) -> Operator:
        return _Pass()

    @property
    def is_stateless(self) -> bool:
        return True

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class Scan(_Edge, frozen=True, tag="scan"):
    """The tuples of a stream with these columns, with arrival numbers if `seq`.

    Only those of a `stint` if it has one.
    """

    stream: str
    columns: tuple[str, ...]
    seq: bool = False
    stint: Stint | UnsetType = UNSET  # not NULL, so that other scans are called as ever

    def describe(self, inputs: Sequence[str] = ()) -> str:
        numbers = ", numbered" if self.seq else ""
        stint = "" if isinstance(self.stint, UnsetType) else f" for {self.stint}"
        columns = f" ({', '.join(map(format_name, self.columns))})" if self.columns else ""
        return f"scan {self.stream}{columns}{numbers}{stint}"


class GridPort(Struct, frozen=True):
    """A port of a join in a grid, with its key in each dimension; None: its tuples go to all cells along it."""

    grid: Grid
    port: int
    keys: tuple[Expr | None, ...]


class Receive(_Edge, frozen=True, tag="receive"):
    """The output of ingest vertex `origin` that comes to this bucket, routed by `keys` (None: to any bucket).

    Its bound is the least bound of the streams it stems from. Empty `keys`: everything goes to one bucket. `allotment`
    names the table that says which bucket has which parcel of the keys; empty: none, the hash decides. Tuples for a
    port of a join that runs in a `grid` go to all cells that have their keys. `port` is that of
    the join behind it if that may have a parcel in several buckets: then those of its ports get different tuples.
    """

    origin: str
    streams: tuple[str, ...]
    keys: tuple[Expr, ...] | None
    allotment: str = ""
    grid: GridPort | None = None
    port: int | None = None

    def describe(self, inputs: Sequence[str] = ()) -> str:
        if self.grid is not None:
            known = [key for key in self.grid.keys if key is not None]
            if len(known) == len(self.grid.keys):
                return f"receive in the cell of {listed(known)}"
            return f"receive in all cells of {listed(known)}" if known else "receive in all cells"
        if self.keys is None:
            return "receive in any bucket"
        if not self.keys:
            return "receive in one bucket"
        heavy = "" if self.port is None else ", heavy ones in several buckets"
        return f"receive by hash of {listed(self.keys)}{heavy}"


class Output(_Edge, frozen=True, tag="output"):
    """The results of a query."""

    query: str

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"output of {self.query}"


class Exchange(_Edge, frozen=True, tag="exchange"):
    """Pages that must change bucket: they come back as the stream `exchange_stream(origin)` in the next micro-batch."""

    origin: str

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return "exchange, read again in the next micro-batch"


class _Pass(Operator):
    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        return (page,)
