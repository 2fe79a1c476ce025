"""The executors of a cluster: how many tasks they run at once, and the wait until they are there.

Spark starts without them. A first micro-batch would wait for ever, without a word, if none can come.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from headrace.errors import HostFault
from headrace.hosts.spark.starting.jvm import with_log
from headrace.hosts.spark.starting.launch import places

#: How long a start waits for executors.
WAIT_SECONDS = 60.0
_PAUSE = 0.1


def slots(context: SparkContext) -> int:
    """Return how many tasks can run at once, by the executors that are registered now; at least 1."""
    try:
        spark = _scala(context)
        return max(1, int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile())))
    except Py4JError:  # some platforms let Python call public methods only
        return max(1, context.defaultParallelism)


def registered(context: SparkContext) -> int | None:
    """Return how many executors are registered now; None where Python may not ask."""
    try:
        return int(_scala(context).getExecutorIds().size())
    except Py4JError:
        return None


def wait_for_executors(
    context: SparkContext,
    number: int | None,
    tell: Callable[[str], None],
    *,
    seconds: float = WAIT_SECONDS,
) -> None:
    """Wait until so many executors are registered; without a number as many as were asked for, or else one.

    HostFault if the time is up. It says what the cluster has, if the master tells.
    """
    expected = number or _asked_for(context)
    if registered(context) is None:
        return
    deadline = time.monotonic() + seconds
    while (count := registered(context) or 0) < expected:
        tell(f"waiting for executors: {count} of {expected}")
        if context._jsc.sc().isStopped():
            raise HostFault("the cluster has ended the application", hint=with_log("start again"))
        if time.monotonic() > deadline:
            raise missing_executors(str(context.master), count, expected, seconds, *_resources(context))
        time.sleep(_PAUSE)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a standalone cluster that is alive."""

    cores: int
    megabytes: int


def missing_executors(
    master: str,
    count: int,
    expected: int,
    seconds: float,
    workers: list[Worker] | None,
    cores: int = 1,
    megabytes: int = 0,
) -> HostFault:
    """Return the fault for executors that did not come; `cores` and `megabytes` are what each of them needs."""
    if count:
        what = f"{count} of {expected} executors have registered within {seconds:.0f} s"
    else:
        what = f"no executor has registered within {seconds:.0f} s"
    if workers is None:
        hint = f"look at what {master} says about the application"
    elif not workers:
        what += ": the master has no worker"
        hint = "start workers (spark-class org.apache.spark.deploy.worker.Worker)"
    else:
        sizes = ", ".join(sorted({f"{_cores(worker.cores)} and {worker.megabytes} MB" for worker in workers}))
        many = f"a worker with {sizes}" if len(workers) == 1 else f"{len(workers)} workers with {sizes} each"
        what += f": the master has {many}, and an executor needs {_cores(cores)} and {megabytes} MB"
        if any(worker.cores >= cores and worker.megabytes >= megabytes for worker in workers):
            hint = (
                "other applications may use the workers, or executors start and fail: an executor must reach the "
                "driver (spark.driver.host)"
            )
        else:
            hint = "ask for less (--conf spark.executor.memory=512m, --conf spark.executor.cores=1)"
    return HostFault(what, hint=with_log(hint))


def _cores(number: int) -> str:
    return f"{number} core{'' if number == 1 else 's'}"


def _asked_for(context: SparkContext) -> int:
    conf = context.getConf()
    if (conf.get("spark.dynamicAllocation.enabled") or "").lower() == "true":
        return 1
    return max(1, int(conf.get("spark.executor.instances") or 1))


def _resources(context: SparkContext) -> tuple[list[Worker] | None, int, int]:
    """Return the workers of a standalone master, and what an executor needs; None for workers if it does not tell."""
    spark = _scala(context)
    conf = context.getConf()
    cores = int(conf.get("spark.executor.cores") or conf.get("spark.task.cpus") or 1)
    try:
        megabytes = int(spark.executorMemory())
        masters = places(str(context.master)) if str(context.master).startswith("spark://") else []
        if not masters:
            return None, cores, megabytes
        jvm: Any = context._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        question = loader.loadClass("org.apache.spark.deploy.DeployMessages$RequestMasterState$")
        answer = loader.loadClass("org.apache.spark.deploy.DeployMessages$MasterStateResponse")
        address = jvm.org.apache.spark.rpc.RpcAddress(*masters[0])
        state = (
            spark.schedulerBackend()  # not SparkEnv: Java cannot list its methods without an optional package
            .rpcEnv()
            .setupEndpointRef(address, "Master")
            .askSync(question.getField("MODULE$").get(None), jvm.scala.reflect.ClassTag.apply(answer))
        )
        alive = [worker for worker in state.workers() if worker.isAlive()]
        return [Worker(int(worker.cores()), int(worker.memory())) for worker in alive], cores, megabytes
    except (Py4JError, ValueError, TypeError):
        return None, cores, 0


def _scala(context: SparkContext) -> Any:
    """Return the Scala object of a context; some of what it tells is not in PySpark."""
    java: Any = context._jsc
    return java.sc()
