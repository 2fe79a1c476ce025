"""The JVM that Headrace starts: how it makes files and plans, and what a signal to the whole process group does."""

import os
import signal
import subprocess
import sys

from headrace.session import Session
from headrace.testing.watching import until

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at FROM GENERATOR (rate 2000);
CREATE QUERY sums AS SELECT item, sum(price) AS s FROM bids [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY item
  INTO FILES (path '{0}/out');
"""


def test_files_get_their_permissions_without_another_process(spark, tmp_path):
    jvm = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), conf)
    assert files.getClass().getName() == "headrace.LocalFiles"
    permission, path = jvm.org.apache.hadoop.fs.permission.FsPermission, jvm.org.apache.hadoop.fs.Path
    files.create(path(str(tmp_path / "private"))).close()
    files.setPermission(path(str(tmp_path / "private")), permission("600"))
    files.mkdirs(path(str(tmp_path / "folder")))
    files.setPermission(path(str(tmp_path / "folder")), permission("1777"))  # by chmod, which alone can do it
    assert {entry.name: entry.stat().st_mode & 0o7777 for entry in tmp_path.iterdir() if entry.suffix != ".crc"} == {
        "private": 0o600,
        "folder": 0o1777,
    }
    assert files.getClass().getSuperclass().getName() == "org.apache.hadoop.fs.LocalFileSystem"


def test_plans_of_our_queries_have_no_programs_and_the_session_of_spark_stays_as_it_is(spark, tmp_path):
    with Session(tmp_path) as session:
        session.execute("CREATE STREAM s (v INT) FROM MEMORY; CREATE QUERY q AS SELECT v FROM s INTO MEMORY")
        session.push("s", [{"v": 1}])
        until(lambda: session.results("q"), session=session)
        plan = session.deployment.query._jsq.explainInternal(False)  # type: ignore[attr-defined]
    assert "TransformWithState" in plan
    assert "*(1)" not in plan  # how Spark marks what has a program
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"


def test_a_signal_to_the_process_group_lets_the_micro_batch_finish(tmp_path):
    (tmp_path / "load.sql").write_text(SCRIPT.format(tmp_path))
    command = [sys.executable, "-m", "headrace", "run", str(tmp_path / "load.sql"), "--checkpoint", str(tmp_path / "c")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        until(lambda: any((tmp_path / "out").glob("*.parquet")) or process.poll() is not None, seconds=120)
        os.killpg(process.pid, signal.SIGTERM)
        told, _ = process.communicate(timeout=90)
    assert "stopped; run the same command again" in told
    assert "HR2" not in told
    assert process.returncode == 0, told
