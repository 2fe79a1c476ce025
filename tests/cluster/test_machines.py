"""The machines of the test cluster themselves: what they share, and how they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.first_process import end_leftovers, processes_of
from tests.cluster.machine import ROOT, NamespaceRack, ProcessRack, can_make_namespaces, until

#: Waits to be connected to, and ends with the first connection.
LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 7))
print("listens", flush=True)
server.accept()
"""
CALL = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 7), 1).close()
    print("answered")
except OSError as error:
    print(type(error).__name__)
"""
#: Makes a machine with a program on it, says so, and waits to be killed.
MAKER = """
import os, sys
from pathlib import Path
from tests.cluster import machine
maker = getattr(machine, sys.argv[1])(Path(sys.argv[2]))
one = maker.machine("one", 1)
one.start(["sleep", "600"], os.environ, Path(sys.argv[2]) / "log")
print(one.identity, flush=True)
input()
"""
needs_namespaces = pytest.mark.skipif(not can_make_namespaces(), reason="this user may not make namespaces")
kinds = pytest.mark.parametrize("kind", [pytest.param(NamespaceRack, marks=needs_namespaces), ProcessRack])


@pytest.fixture
def common(tmp_path):
    folder = tmp_path / "common"
    folder.mkdir()
    return folder


@pytest.fixture
def rack(kind, common):
    rack = kind(common)
    yield rack
    rack.close()


def run(machine, common, *command):
    process = machine.start(command, os.environ, common / "log", talks=True)
    return process.communicate(timeout=60)[0].decode()


@kinds
def test_machines_share_one_folder_and_reach_each_other(kind, rack, common):
    first, second = rack.machine("first", 1), rack.machine("second", 2)
    for machine in (first, second):
        run(machine, common, "touch", str(machine.disk / machine.name), str(common / machine.name))
    assert {path.name for path in common.iterdir()} - {"hosts"} == {"first", "log", "second"}
    assert "second" not in run(first, common, "ls", str(first.disk))
    server = first.start([sys.executable, "-c", LISTEN, first.address], os.environ, common / "log", talks=True)
    assert server.stdout.readline() == b"listens\n"
    called = first.name if kind is NamespaceRack else first.address
    assert run(second, common, sys.executable, "-c", CALL, called) == "answered\n"
    assert server.wait(60) == 0


@kinds
def test_a_machine_that_is_switched_off_ends_with_its_disk_and_can_return(rack, common):
    machine = rack.machine("first", 1)
    run(machine, common, "touch", str(machine.disk / "note"))
    sleeper = machine.start(["sh", "-c", "setsid sleep 601 & sleep 600"], os.environ, common / "log", talks=True)
    until(lambda: len(processes_of(machine.identity)) >= 3)
    machine.switch_off()
    assert sleeper.poll() is not None
    assert processes_of(machine.identity) == []
    machine = rack.machine("first", 1)
    assert "note" not in run(machine, common, "ls", str(machine.disk))


@pytest.mark.parametrize("kind", [pytest.param(NamespaceRack, marks=needs_namespaces)])
def test_a_machine_can_write_only_its_disk_and_the_common_folder(rack, common):
    machine = rack.machine("first", 1)
    for folder in (ROOT, Path.home(), Path("/var/tmp")):
        assert run(machine, common, "touch", str(folder / "note")) == ""
        assert not (folder / "note").exists()
    assert (common / "log").read_text().count("Read-only file system") == 3


@pytest.mark.parametrize("kind", [pytest.param(NamespaceRack, marks=needs_namespaces)])
def test_a_machine_that_is_cut_off_does_not_answer_until_it_is_back(rack, common):
    first, second = rack.machine("first", 1), rack.machine("second", 2)
    server = first.start([sys.executable, "-c", LISTEN, first.address], os.environ, common / "log", talks=True)
    assert server.stdout.readline() == b"listens\n"
    rack.cut(first)
    assert run(second, common, sys.executable, "-c", CALL, first.address) in ("TimeoutError\n", "OSError\n")
    rack.mend(first)
    until(lambda: run(second, common, sys.executable, "-c", CALL, first.address) == "answered\n")


@kinds
def test_machines_end_with_the_program_that_made_them(kind, common):
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, kind.__name__, str(common)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with maker:
        identity = maker.stdout.readline().strip()
        until(lambda: processes_of(identity))
        maker.kill()
    until(lambda: not processes_of(identity))


def test_processes_whose_maker_is_gone_are_ended_by_a_later_run():
    ended = subprocess.Popen(["true"])
    ended.wait()
    with subprocess.Popen(["sleep", "600"], env={"HEADRACE_TEST_MACHINE": f"{ended.pid}:old"}) as leftover:
        until(lambda: processes_of(f"{ended.pid}:old"))
        end_leftovers()
        assert leftover.wait(60) != 0
