"""Makes links, bridges and addresses in the network namespace of this process, by messages to the kernel (rtnetlink).

The program `ip` does the same, but it would have to be installed.
"""

from __future__ import annotations

import os
import socket
import struct

_DONE, _NEW_LINK, _SET_LINK, _NEW_ADDRESS = 2, 16, 19, 20  # kinds of messages; 2 also carries an error number
_REQUEST, _ACKNOWLEDGE, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_HARDWARE, _NAME, _MASTER, _INFO, _NAMESPACE = 1, 3, 10, 18, 19  # attributes of a link
_KIND, _DATA, _PEER = 1, 2, 1  # attributes of its kind
_UP = 0x1


def add_bridge(name: str) -> None:
    _send(_NEW_LINK, _link() + _text(_NAME, name) + _attribute(_INFO, _text(_KIND, "bridge")), creates=True)


def add_cable(name: str, far_name: str, far_process: int, far_hardware: bytes) -> None:
    """Make a cable (a pair of links): one end here, the other one in the network namespace of a process.

    The hardware address of the far end is six bytes. A machine that returns should have the one it had, because the
    others remember it.
    """
    far_end = (
        _link()
        + _text(_NAME, far_name)
        + _attribute(_HARDWARE, far_hardware)
        + _attribute(_NAMESPACE, struct.pack("=I", far_process))
    )
    cable = _text(_KIND, "veth") + _attribute(_DATA, _attribute(_PEER, far_end))
    _send(_NEW_LINK, _link() + _text(_NAME, name) + _attribute(_INFO, cable), creates=True)


def put_into_bridge(name: str, bridge: str) -> None:
    _send(_SET_LINK, _link(_index(name)) + _attribute(_MASTER, struct.pack("=I", _index(bridge))))


def switch(name: str, *, on: bool) -> None:
    _send(_SET_LINK, _link(_index(name), _UP if on else 0, _UP))


def add_address(name: str, address: str, prefix: int) -> None:
    value = socket.inet_aton(address)
    header = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, _index(name))
    _send(_NEW_ADDRESS, header + _attribute(1, value) + _attribute(2, value), creates=True)


def _index(name: str) -> int:
    return socket.if_nametoindex(name)


def _link(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _send(kind: int, body: bytes, *, creates: bool = False) -> None:
    flags = _REQUEST | _ACKNOWLEDGE | (_CREATE | _EXCLUSIVE if creates else 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = kernel.recv(65536)
    (answered,) = struct.unpack_from("=H", answer, 4)
    (error,) = struct.unpack_from("=i", answer, 16)
    if answered != _DONE or error:
        raise OSError(-error, os.strerror(-error))
