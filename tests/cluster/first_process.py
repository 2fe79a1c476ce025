"""The first process of a machine: makes its disk and its network, and waits. The machine ends with it.

It also ends with its standard input, so a machine does not outlive the program that started it, however that ended.

Arguments: the kind of machine, its id, its address, and its disk. A machine of namespaces then has the folders that it
shares with the others (`/path`, or `=/path` for one that it may only read). In the first of them is a file with the
names of all machines, which takes the place of /etc/hosts. Its disk is a file system of its own over /tmp and
/dev/shm. All else is read-only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from tests.cluster import netlink

#: In the environment of every process of a machine.
VARIABLE = "HEADRACE_TEST_MACHINE"
#: The names of machines, in the folder that they share.
HOSTS = "hosts"
_READ_ONLY, _REMOUNT, _BIND = 0x1, 0x20, 0x1000  # of mount(2)


def main() -> None:
    kind, identity, address, disk, *shared = sys.argv[1:]
    if kind == "namespaces":
        socket.sethostname(identity.rpartition(":")[2])
        print("made", flush=True)  # noqa: T201  somebody connects us now
        sys.stdin.readline()
        _make_network(address)
        _make_disk(Path(disk), Path(shared[0]) / HOSTS, shared)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans of the machine are ours; the kernel removes them
    print("ready", flush=True)  # noqa: T201
    sys.stdin.read()
    if kind == "processes":
        end_processes(identity)
        shutil.rmtree(disk, ignore_errors=True)


def processes_of(identity: str) -> list[int]:
    """Return the processes of a machine: the environment is what they all inherit."""
    entry = f"{VARIABLE}={identity}".encode()
    return [process for process, entries in _environments() if entry in entries]


def end_processes(identity: str) -> None:
    """Kill the processes of a machine, and those that they started meanwhile."""
    while members := processes_of(identity):
        for process in members:
            _kill(process)


def end_leftovers() -> None:
    """Kill the processes of machines whose maker, named at the beginning of their id, is gone."""
    start = f"{VARIABLE}=".encode()
    for process, entries in _environments():
        for entry in entries:
            maker = entry.removeprefix(start).partition(b":")[0]
            if entry.startswith(start) and not Path("/proc", maker.decode()).exists():
                _kill(process)


def _environments() -> list[tuple[int, list[bytes]]]:
    environments = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environments.append((int(folder.name), (folder / "environ").read_bytes().split(b"\0")))
            except OSError:
                continue  # it has ended, or belongs to somebody else
    return environments


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _make_network(address: str) -> None:
    netlink.switch("lo", on=True)
    netlink.add_address("eth0", address, 24)
    netlink.switch("eth0", on=True)


def _make_disk(disk: Path, hosts: Path, shared: list[str]) -> None:
    """Cover `disk` and shared memory by empty file systems, and make the rest read-only but for what is shared."""
    folders = {Path(text.removeprefix("=")): text.startswith("=") for text in shared}
    handles = {folder: os.open(folder, os.O_PATH) for folder in folders}  # they may lie under the disk
    for covered in (disk, Path("/dev/shm")):
        _mount("disk", covered, kind="tmpfs", options="mode=1777")
    for folder, handle in handles.items():
        folder.mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{handle}", folder, _BIND)
        if folders[folder]:
            _mount("", folder, _BIND | _REMOUNT | _READ_ONLY)
    _mount(str(hosts), Path("/etc/hosts"), _BIND)
    _mount("", Path("/"), _BIND | _REMOUNT | _READ_ONLY)


def _mount(source: str, target: Path, flags: int = 0, *, kind: str = "", options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


if __name__ == "__main__":
    main()
