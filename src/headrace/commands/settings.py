"""Settings that ALTER changes while queries run.

A strategy, a scheduler, breaks, a shed share and the optimizer belong to one query, or (but for the share) to every
query that has none of its own. Fairness, eligibility, the budget, ETS, the reach of feedback, the limit of memory,
balancing, local plans and grids belong to the whole system.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from headrace.operators.feedback.reach import Reach


class Strategy(Struct, frozen=True, tag="strategy"):
    """The strategy by which the dispatch cycle selects the next operator."""

    name: str


class Scheduler(Struct, frozen=True, tag="scheduler"):
    """The scheduler that chooses which operator runs first; `auto` if the controller chose it to keep promises."""

    name: str
    auto: bool = False


class Breaks(Struct, frozen=True, tag="breaks"):
    """Arcs that are cut, so that the operators at both ends are scheduled separately.

    'everywhere', 'none', or places such as 'before join, after aggregate'.
    """

    where: str


class ShedShare(Struct, frozen=True, tag="shed_share"):
    """The share of a query's input that is dropped whatever its promises need; None: as much as they need."""

    share: float | None


class Plan(Struct, frozen=True, tag="plan"):
    """Whether a user chose the join tree of a query, so that nobody else changes it."""

    fixed: bool


class Fairness(Struct, frozen=True, tag="fairness"):
    """The protection against starvation.

    The oldest unit has a turn after each `period` of work (nanoseconds), and age may raise priority.
    """

    mode: Literal["oldest", "dynamic", "none"] = "oldest"
    period: int = 100_000_000
    auto: bool = False  # chosen by the controller to keep promises


class Eligibility(Struct, frozen=True, tag="eligibility"):
    """The units that may have a turn.

    More tuples than this wait per operator, or they have waited longer (microseconds); 0: all units.
    """

    tuples: int = 0
    waited: int = 0


class Budget(Struct, frozen=True, tag="budget"):
    """The work that a bucket may do in a micro-batch (nanoseconds of estimated service).

    A fixed amount, no limit, or by default what the controller calculates.
    """

    mode: Literal["auto", "off", "fixed"] = "auto"
    nanoseconds: int = 0  # of a fixed budget


class Ets(Struct, frozen=True, tag="ets"):
    """When silent streams give a bound: when an operator waits for one, in every `period` (microseconds), or never."""

    mode: Literal["on demand", "periodic", "none"] = "on demand"
    period: int = 0


class FeedbackReach(Struct, frozen=True, tag="feedback_reach"):
    """How far feedback goes: to the results, to the operator that makes them, or up to the sources."""

    reach: Reach = "sources"


class Optimizer(Struct, frozen=True, tag="optimizer"):
    """Whether the plans of joins of several inputs change while they run: as the data demand, or not."""

    mode: Literal["auto", "off"] = "auto"


class MemoryLimit(Struct, frozen=True, tag="memory_limit"):
    """How much state all queries together should hold (bytes); None: there is no limit."""

    bytes: float | None = None


class Balancing(Struct, frozen=True, tag="balancing"):
    """Whether parcels of keys change bucket as the load of processors demands, or not."""

    mode: Literal["auto", "off"] = "off"


class LocalPlans(Struct, frozen=True, tag="local_plans"):
    """Whether each bucket runs the join tree that fits its own keys, or all run the same."""

    mode: Literal["auto", "off"] = "off"


class Grid(Struct, frozen=True, tag="grid"):
    """Whether joins of streams without a common key run in a grid: where that should pay, always, or never.

    It holds for queries that are created or replaced from then on.
    """

    mode: Literal["auto", "on", "off"] = "auto"


Setting: TypeAlias = (
    Strategy
    | Scheduler
    | Breaks
    | ShedShare
    | Plan
    | Fairness
    | Eligibility
    | Budget
    | Ets
    | FeedbackReach
    | Optimizer
    | MemoryLimit
    | Balancing
    | LocalPlans
    | Grid
)
