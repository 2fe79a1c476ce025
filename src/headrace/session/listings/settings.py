"""The listing of SHOW SETTINGS: every setting in force, in the words of ALTER."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.commands.running import Running
from headrace.commands.settings import (
    Balancing,
    Breaks,
    Budget,
    Eligibility,
    Ets,
    Fairness,
    FeedbackReach,
    Grid,
    LocalPlans,
    MemoryLimit,
    Optimizer,
    Plan,
    Scheduler,
    Setting,
    ShedShare,
    Strategy,
)
from headrace.model.qos import format_size
from headrace.model.time import format_duration
from headrace.session.outcome import Listing

#: The settings that hold until ALTER or the controller changes them.
DEFAULTS: Mapping[str, Setting] = {
    "strategy": Strategy("dfs"),
    "scheduler": Scheduler("none"),
    "fairness": Fairness(),
    "eligibility": Eligibility(),
    "budget": Budget(),
    "breaks": Breaks("none"),
    "ets": Ets(),
    "feedback": FeedbackReach(),
    "shedding": ShedShare(None),
    "plan": Plan(fixed=False),
    "optimizer": Optimizer(),
    "memory": MemoryLimit(),
    "balancing": Balancing(),
    "local_plans": LocalPlans(),
    "grid": Grid(),
}
#: Settings that only queries have.
_OF_QUERIES = ("shedding", "plan")


def show_settings(running: Running, budget: int | None) -> Listing:
    """List the settings of the system, then those of queries; `budget` is the one that was calculated (ns)."""
    return Listing(("setting", "query", "value", "chosen by"), tuple(_rows(running, budget)))


def setting_text(setting: Setting, budget: int | None = None) -> str:
    """Return a setting as ALTER takes it; a budget that is calculated with its present value."""
    match setting:
        case Strategy(name=name) | Scheduler(name=name):
            return name
        case Breaks(where=where):
            return where
        case ShedShare(share=share):
            return "auto" if share is None else f"{share:g}" if share else "off"
        case Plan(fixed=fixed):
            return "fixed" if fixed else "auto"
        case Fairness(mode=mode, period=period):
            return f"oldest {format_duration(period // 1000)}" if mode == "oldest" else mode
        case Eligibility(tuples=tuples, waited=waited):
            return f"{tuples} tuples or {format_duration(waited)}" if tuples else "none"
        case Budget(mode="fixed", nanoseconds=nanoseconds):
            return format_duration(nanoseconds // 1000)
        case Budget(mode="auto"):
            return "auto" if budget is None else f"auto ({budget / 1e6:.0f} ms)"
        case Budget():
            return "off"
        case Ets(mode=mode, period=period):
            return f"periodic {format_duration(period)}" if mode == "periodic" else mode
        case FeedbackReach(reach=reach):
            return reach
        case Optimizer(mode=chosen) | Balancing(mode=chosen) | LocalPlans(mode=chosen) | Grid(mode=chosen):
            return chosen
        case MemoryLimit(bytes=size):
            return "off" if size is None else format_size(size)


def _rows(running: Running, budget: int | None) -> Iterator[tuple[str, str, str, str]]:
    names = {type(default): name for name, default in DEFAULTS.items()}
    of_system = {names[type(chosen.setting)]: chosen.setting for chosen in running.settings if chosen.query is None}
    for name, default in DEFAULTS.items():
        if name in of_system:
            yield name, "all", setting_text(of_system[name], budget), _chosen_by(of_system[name])
        elif name not in _OF_QUERIES:
            yield name, "all", setting_text(default, budget), "default"
    if running.buckets:
        yield "buckets", "all", str(len(running.buckets)), "ALTER"
    for chosen in sorted(running.settings, key=lambda chosen: (chosen.query or "", names[type(chosen.setting)])):
        if chosen.query is not None:
            name = names[type(chosen.setting)]
            yield name, chosen.query, setting_text(chosen.setting), _chosen_by(chosen.setting)


def _chosen_by(setting: Setting) -> str:
    is_auto = isinstance(setting, Scheduler | Fairness) and setting.auto
    return "Headrace" if is_auto else "ALTER"
