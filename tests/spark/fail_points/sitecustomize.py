"""On the path of a deployment's Python processes: kills the whole deployment at one point of a change.

`DIE_AT` names the point. With `EAGER` the optimizer decides after a few tuples, and builds states row by row. Joined
rows are derived chunks, which no process finds after a restart.
"""

import os
import signal
from functools import partial
from typing import Any

from msgspec.structs import replace

from headrace.analysis.joins import migration_price
from headrace.commands.command import UseTree
from headrace.commands.key_splits import changed_parcels
from headrace.commands.log import CommandLog
from headrace.control import planning
from headrace.control.policies import plan_choice
from headrace.control.sampling import Sampling
from headrace.driver.delivery import Delivery
from headrace.graph.place import is_dealt
from headrace.model.time import SECOND
from headrace.worker import bucket as buckets
from headrace.worker import saved_state

saved_state.INLINE_BYTES = 1  # so that joined rows are files of their own, as those of a large state are


def die():
    os.killpg(os.getsid(0), signal.SIGKILL)  # the driver and the JVM; workers end without it
    signal.pause()


def before(owner, name, action):
    original = getattr(owner, name)

    def wrapped(self, *arguments, **options):
        action(self, *arguments)
        return original(self, *arguments, **options)

    setattr(owner, name, wrapped)


def after(owner, name, action):
    original = getattr(owner, name)

    def wrapped(self, *arguments, **options):
        result = original(self, *arguments, **options)
        action(self, *arguments)
        return result

    setattr(owner, name, wrapped)


def die_of_change(log, *commands):
    if any(isinstance(command, UseTree) for command in commands):
        die()


def note_change(bucket, change):
    bucket.has_changed = True


def die_if_changed(bucket, *arguments):
    if getattr(bucket, "has_changed", False):
        die()


def die_if_known(delivery, batch, handed, running, *arguments):
    if running.local_trees if running.local_plans == "auto" else running.trees:
        die()


def die_between(delivery, *arguments):
    """Die when a change has been under way in two micro-batches of this process."""
    moving = any(box.migration is not None for report in delivery.reports for box in report.boxes.values())
    delivery.moved = getattr(delivery, "moved", 0) + moving
    if delivery.moved > 1:
        die()


def die_of_given(original, engine, number, batch, lays, allotments, moves):
    """Die when a bucket has written rows of keys that will be in several buckets, or were."""
    given = original(engine, number, batch, lays, allotments, moves)
    if given and changed_parcels(*allotments):
        die()
    return given


def die_of_taken(original, engine, number, moved, moves):
    """Die when a bucket has taken such rows in."""
    taken = original(engine, number, moved, moves)
    if any(file.bucket == number and is_dealt(file.name) for file in moved):
        die()
    return taken


def die_if_moved(delivery, batch, reports, *arguments):
    if any(is_dealt(file.name) for report in reports for file in report.moved):
        die()


def hurry():
    """Let the optimizer look at plans ten times per second, change them for any gain, and build a row at a time."""
    module: Any = planning  # its names are replaced
    module._SHORTEST = module._SOONEST = buckets.SAMPLED_EVERY = SECOND // 10
    plan_choice.CONFIRMING = 0.1
    module.BoxMemory = partial(module.BoxMemory, sampling=Sampling(SECOND // 10, SECOND, SECOND // 10))
    module.FEW = 20
    free = {"step": 0.0, "store": 0.0, "stored_byte": 0.0, "derived_byte": 0.0}  # so that it stores something
    module.COSTS = replace(module.COSTS, **free)
    plan_choice.LEAST_WORK = plan_choice.RETURN = plan_choice.PAUSE = 0.0
    module.allowed_pause = lambda latencies: 0.0
    module.allowed_portion = lambda latencies: 1e-9
    migration_price.LEAST_ROWS = 1


module: Any = buckets  # its names are replaced
match os.environ.get("DIE_AT", ""):
    case "before the log":
        before(CommandLog, "append", die_of_change)
    case "after the log":
        after(CommandLog, "append", die_of_change)
    case "in a bucket":
        after(buckets.Bucket, "_use_tree", note_change)
        after(buckets.Bucket, "_save", die_if_changed)
    case "before the delivery":
        before(Delivery, "_write", die_if_known)  # all buckets have saved
    case "in the delivery":
        before(Delivery, "_remember", die_if_known)
    case "rows are given":
        module.give = partial(die_of_given, module.give)
    case "rows are taken in":
        module.take_in = partial(die_of_taken, module.take_in)
    case "the delivery of given rows":
        before(Delivery, "_remember", die_if_moved)
    case "between portions":
        after(Delivery, "deliver", die_between)

if "EAGER" in os.environ:
    hurry()
