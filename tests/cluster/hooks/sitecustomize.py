"""On the path of all Python processes of the test cluster: they tell when they come to a point of `points`."""

from typing import Any

from tests.cluster.points import reach

from headrace.commands.command import Allot
from headrace.driver import intake as intakes
from headrace.driver.delivery import Delivery
from headrace.driver.intake import Intake
from headrace.worker import bucket as buckets
from headrace.worker.bucket import Bucket

worker: Any = buckets  # its names are replaced
planning: Any = intakes
give, take_in, delete = worker.give, worker.take_in, planning.delete
command, save, remember, latest = Bucket._command, Bucket._save, Delivery._remember, Intake.latest
#: What buckets of this process have done in this micro-batch.
done: dict[int, str] = {}


def hear(self, commands):
    if any(isinstance(each, Allot) for each in commands):
        reach("the command is heard")
    command(self, commands)


def give_rows(engine, number, *arguments):
    reach("input is worked off")
    given = give(engine, number, *arguments)
    if given:
        done[number] = "the giver has saved"
        reach("rows are given")
    return given


def take_rows_in(engine, number, *arguments):
    done.pop(number, None)
    taken = take_in(engine, number, *arguments)
    if taken:
        done[number] = "the taker has saved"
        reach("rows are taken in")
    return taken


def save_state(self, *arguments, **options):
    save(self, *arguments, **options)
    if point := done.pop(self.number, None):
        reach(point)


def remember_rows(self, batch, reports, *arguments, **options):
    if any(report.moved for report in reports):
        reach("given rows are delivered")
    remember(self, batch, reports, *arguments, **options)


def plan(self, start, now):
    end = latest(self, start, now)
    if end.moved and end.moved != start.moved:
        reach("the next micro-batch is planned")
    return end


def delete_files(*arguments):
    reach("files are deleted")
    delete(*arguments)


Bucket._command, Bucket._save = hear, save_state  # type: ignore[method-assign]
worker.give, worker.take_in, planning.delete = give_rows, take_rows_in, delete_files
Delivery._remember, Intake.latest = remember_rows, plan  # type: ignore[method-assign]
