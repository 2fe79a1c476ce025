"""The network between machines: a bridge in a network namespace of its own, which nothing else can reach.

Reads requests from standard input and answers each with a line; it ends with its input.

    connect CABLE PROCESS ADDRESS    a cable from the bridge to the namespace of a process, whose end is eth0
    cut CABLE                        nothing passes any more, and nobody is told
    mend CABLE
"""

from __future__ import annotations

import socket
import sys

from tests.cluster import netlink

BRIDGE = "bridge"


def main() -> None:
    netlink.add_bridge(BRIDGE)
    netlink.switch(BRIDGE, on=True)
    for line in sys.stdin:
        match line.split():
            case ["connect", cable, process, address]:
                netlink.add_cable(cable, "eth0", int(process), b"\x02\0" + socket.inet_aton(address))
                netlink.put_into_bridge(cable, BRIDGE)
                netlink.switch(cable, on=True)
            case ["cut" | "mend" as what, cable]:
                netlink.switch(cable, on=what == "mend")
        print("done", flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main()
