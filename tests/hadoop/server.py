"""HDFS and YARN on this machine, in one JVM: Hadoop's own clusters for tests; `tests/hadoop/setup` fetches them."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from headrace.cli import java

JARS = Path(os.environ.get("HEADRACE_TEST_HADOOP", Path(__file__).parents[2] / ".hadoop"))
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
#: Small containers fit, whatever the machine has; nothing looks at its disks and its memory.
YARN = {
    "yarn.resourcemanager.scheduler.class": _SCHEDULER,
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.resource.memory-mb": "3000",
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "3000",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.enable": "false",
    "yarn.nodemanager.delete.debug-delay-sec": "0",
}
#: What clients of YARN must know.
ADDRESSES = ("yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address")


def reason_to_skip() -> str | None:
    """Return why neither can run here."""
    return None if (JARS / "stamp").exists() else "no clusters of Hadoop here: run tests/hadoop/setup"


class Hadoop:
    """HDFS with one data node, and YARN with two node managers once it is asked for; both on the loopback address."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "conf"
        self.conf.mkdir(parents=True)
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        #: How JVMs find this machine by its name, whether or not its network knows it.
        self.options = f"-Djdk.net.hosts.file={hosts}"
        program = [str(java.prepare() / "bin" / "java"), "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        program += [self.options, f"-Dtest.build.data={folder}/data", f"-Dhadoop.log.dir={folder}/logs"]
        program += ["-cp", f"{JARS}/*:{SPARK_JARS}/*", "py4j.GatewayServer", "--die-on-broken-pipe", "0"]
        with (folder / "output.txt").open("wb") as output:
            # it ends when this process does, and with it what it would have read
            self._process = subprocess.Popen(
                program, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )
        self._gateway: JavaGateway | None = None
        try:
            self._start_hdfs()
        except BaseException:
            self.close()
            raise

    def publish(self, port: int) -> None:
        """Let clients that read the configuration find the name node's WebHDFS at a port of this machine."""
        self._write("hdfs-site.xml", {"dfs.namenode.http-address": f"127.0.0.1:{port}", "dfs.replication": "1"})

    def start_yarn(self) -> None:
        """Start a resource manager and two node managers."""
        conf = self._jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in YARN.items():
            conf.set(name, value)
        yarn = self._jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 2, 1, 1)
        yarn.init(conf)
        yarn.start()
        known = yarn.getConfig()
        self._write("yarn-site.xml", {name: _loopback(str(known.get(name))) for name in ADDRESSES})

    def close(self) -> None:
        if self._gateway is not None:
            self._gateway.close()
        self._process.kill()
        self._process.communicate()

    def _start_hdfs(self) -> None:
        assert self._process.stdout is not None
        port = self._process.stdout.readline()
        if not port:
            raise RuntimeError(f"Java does not start: {(self.folder / 'output.txt').read_text()[-1000:]}")
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port)))
        self._jvm: Any = self._gateway.jvm
        namenode = self._jvm.org.apache.hadoop.hdfs.server.namenode
        namenode.EditLogFileOutputStream.setShouldSkipFsyncForTesting(True)  # it would wait for the disk at each change
        conf = self._jvm.org.apache.hadoop.conf.Configuration()
        self._hdfs = self._jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1).build()
        self.url = f"hdfs://127.0.0.1:{self._hdfs.getNameNodePort()}"
        self.http = int(str(self._hdfs.getHttpUri(0)).rpartition(":")[2])
        self._write("core-site.xml", {"fs.defaultFS": self.url})
        self.publish(self.http)

    def _write(self, name: str, settings: dict[str, str]) -> None:
        entries = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
        )
        (self.conf / name).write_text(f"<configuration>{entries}</configuration>")


def _loopback(address: str) -> str:
    return f"127.0.0.1:{address.rpartition(':')[2]}"
