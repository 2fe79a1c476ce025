"""The server, its state and settings, and figures over time."""

from __future__ import annotations

from typing import Any, Literal

from headrace.server.views.figures import Beat
from headrace.server.views.problem import Problem
from headrace.server.views.view import Role, State, View


class DeploymentView(View, frozen=True):
    """The server, and its latest beat."""

    name: str
    version: str
    host: str
    checkpoint: str
    state: State
    stage: str | None
    problem: Problem | None
    since: int
    uptime_s: float
    cores: int
    role: Role
    read_only: bool
    logs: str
    beat: Beat


class Check(View, frozen=True):
    """One condition of readiness."""

    name: str
    ok: bool
    detail: str


class Health(View, frozen=True):
    """Whether the process answers, and whether it is ready; checks only with a token."""

    status: Literal["ok", "not ready"]
    checks: tuple[Check, ...] = ()


class PartitionView(View, frozen=True):
    """A bucket, as it reported in the last micro-batch."""

    bucket: int
    machine: str
    state_bytes: int
    cached_bytes: int
    operators_us: int
    restored: bool


class SettingView(View, frozen=True):
    """A setting, its value, and what it means."""

    setting: str
    value: str
    scope: str


class TokenView(View, frozen=True):
    """A token by name; the token itself is known to its user only."""

    name: str
    role: Role


class ListingView(View, frozen=True):
    """Rows of a SHOW, DESCRIBE or DEMAND."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class Series(View, frozen=True):
    """One figure over time; None where nothing is known."""

    name: str
    values: tuple[float | None, ...]


class HistoryView(View, frozen=True):
    """Figures over time: `times` are the same for all series."""

    step_s: float
    times: tuple[int, ...]
    series: tuple[Series, ...]


class LoginAnswer(View, frozen=True):
    """Who is logged in."""

    name: str
    role: Role


class Done(View, frozen=True):
    """Something was done."""

    done: str
