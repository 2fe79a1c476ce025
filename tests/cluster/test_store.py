"""A checkpoint in an object store, on a cluster that loses a machine and then its driver: results stay exact."""

import sys

import pytest
from tests.cluster.machine import until
from tests.objects.imitation import BUCKET, PLACE, SERVER
from tests.spark.crash_case import SCRIPT, expected, write_data, written

PORT = 5000
#: One core for each driver: the one that is cut off keeps its own.
CONF = {
    "spark.cores.max": "1",
    "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",  # its upload does not agree with the imitation
}


@pytest.fixture(scope="module")
def endpoint(cluster):
    """The address of an imitation of S3 on a machine of its own."""
    pytest.importorskip("obstore", reason="the client of object stores is not installed: tests/objects/setup")
    if not (PLACE / "stamp").exists():
        pytest.skip("no imitation of S3 here: run tests/objects/setup")
    machine, log = cluster.machine("store"), cluster.logs / "store.log"
    command = [sys.executable, "-c", SERVER, str(PLACE / "server"), "-H", machine.address, "-p", str(PORT)]
    machine.start(command, cluster.environ(machine), log)
    until(lambda: "Running on" in log.read_text(), what="the imitation of S3")
    yield f"http://{machine.address}:{PORT}"
    machine.switch_off()


def test_a_driver_that_was_cut_off_cannot_deliver_after_another_took_over(ready_cluster, endpoint, drivers):
    if ready_cluster.rack.kind != "namespaces":
        pytest.skip("machines of this kind cannot be cut off the network")
    cluster, place = ready_cluster, f"s3a://{BUCKET}/cluster"
    folder = cluster.common / "store"
    frames = write_data(folder / "data", 6)
    script = SCRIPT.format(data=f"{place}/data", out=f"{place}/out")
    answers = expected(script, frames)
    jars = ",".join(sorted(map(str, (PLACE / "jars").glob("*.jar"))))
    conf = {**CONF, "spark.jars": jars, "spark.hadoop.fs.s3a.endpoint": endpoint}
    first = drivers.get(conf, executors=1)
    first.call("tests.cluster.jobs:make_bucket", endpoint=endpoint, name=BUCKET)
    first.call("tests.cluster.jobs:copy_files", source=str(folder / "data"), target=f"{place}/data")
    session = {"checkpoint": f"{place}/state", "text": script, "limit": 300, "buckets": 2, "interval": 0}
    first.call("start", **session)
    until(lambda: first.call("batch", checkpoint=session["checkpoint"]) >= 1, what="two micro-batches")
    (address,) = first.call("executors")
    lost = next(name for name in cluster.workers if cluster.address(name) == address)
    cluster.switch_off(lost)
    cluster.switch_on(lost)
    reached = first.call("batch", checkpoint=session["checkpoint"])
    until(lambda: first.call("batch", checkpoint=session["checkpoint"]) > reached, what="another one")
    cluster.rack.cut(first.machine)
    second = cluster.driver("driver-20", conf, executors=1)
    second.call("start", **session, take_over=True)
    second.call("drain", checkpoint=session["checkpoint"])
    cluster.rack.mend(first.machine)
    with pytest.raises(RuntimeError, match="OwnerFault: another process has taken over"):
        first.call("drain", checkpoint=session["checkpoint"])
    second.call("tests.cluster.jobs:copy_files", source=f"{place}/out", target=str(folder / "out"))
    assert written(folder / "out", answers) == answers
    cluster.switch_off("driver-20")
    drivers.lose()
