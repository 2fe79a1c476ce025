"""A generated network: optical rings, circuits and private networks above them; an hour of messages, with faults.

A cut fiber makes every node of its ring, and everything above the ring, complain every few seconds until the repair.
"""

from __future__ import annotations

import csv
import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

START = dt.datetime(2026, 1, 1, 9, tzinfo=dt.UTC).replace(tzinfo=None)
MINUTES = 60
RINGS = 4
NODES, CIRCUITS, NETWORKS = 5, 6, 4  # of each ring
#: The characters that end each message, by stream.
TERMINATORS = {"transport": "\r\n\x1b\x05", "circuits": "\r\n\x1b\x05", "traps": "\n", "switches": "\r\n\x19"}


@dataclass(frozen=True, slots=True)
class Cut:
    """A fiber of a ring, cut and repaired; seconds since the start."""

    ring: int
    begin: float
    end: float


@dataclass(slots=True)
class Network:
    """Messages by stream with their arrival times in seconds, the topology above each ring, and the faults."""

    messages: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: {stream: [] for stream in TERMINATORS})
    topology: list[tuple[str, str, int]] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    isolated: list[str] = field(default_factory=list)  # circuits that fail although their ring works
    stuck: list[str] = field(default_factory=list)  # trunks that were not restored in time
    repeated: list[str] = field(default_factory=list)  # modules that fail repeatedly
    broken: int = 0  # messages that no script accepts


def network(seed: int, *, repeat: float = 5.0) -> Network:
    """Generate an hour in which three rings are cut: one is repaired soon, one late, one never.

    Elements repeat their complaints every `repeat` seconds.
    """
    chance = random.Random(seed)
    made = Network()
    for ring in range(1, RINGS + 1):
        made.topology += [(f"SDH-{ring}-{i}", "SDH", ring) for i in range(1, NODES + 1)]
        made.topology += [(f"VC-{ring}-{i}", "ATM", ring) for i in range(1, CIRCUITS + 1)]
        made.topology += [(f"VPN-{ring}-{i}", "VPN", ring) for i in range(1, NETWORKS + 1)]
    soon, late, never, whole = chance.sample(range(1, RINGS + 1), 4)
    made.cuts = [
        Cut(soon, *_times(chance, 8)),
        Cut(late, *_times(chance, 25)),
        Cut(never, chance.uniform(40, 43) * 60, float("inf")),
    ]
    for cut in made.cuts:
        _storm(made, chance, cut, repeat)
    made.isolated = [f"VC-{whole}-{chance.randint(1, CIRCUITS)}"]
    _fail(made, chance, made.isolated[0], Cut(whole, *_times(chance, 3)), repeat, delay=0)
    _statuses(made, chance)
    _switches(made, chance)
    for messages in made.messages.values():
        messages.sort()
    return made


def write(made: Network, folder: Path, *, parts: int = 2) -> None:
    """Write the characters that each kind of element sends, divided into files between messages, and the topology."""
    for stream, messages in made.messages.items():
        (folder / stream).mkdir(parents=True, exist_ok=True)
        size = -(-len(messages) // parts)
        for part in range(parts):
            text = "".join(message + TERMINATORS[stream] for _, message in messages[part * size : (part + 1) * size])
            (folder / stream / f"{part}.txt").write_bytes(text.encode())
    with (folder / "topology.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("element", "layer", "ring"))
        out.writerows(made.topology)


def _times(chance: random.Random, minutes: float) -> tuple[float, float]:
    begin = chance.uniform(5, 20) * 60
    return begin, begin + minutes * 60


def _storm(made: Network, chance: random.Random, cut: Cut, repeat: float) -> None:
    """Add the complaints about a cut fiber: one node is first, all other elements follow within half a minute."""
    order = [element for element, layer, ring in made.topology if ring == cut.ring]
    nodes = [element for element in order if element.startswith("SDH")]
    first = chance.choice(nodes)
    for element in order:
        soonest = {"SDH": 0.4, "VC-": 2.0, "VPN": 5.0}[element[:3]]
        _fail(
            made, chance, element, cut, repeat, delay=0 if element == first else chance.uniform(soonest, soonest + 20)
        )


def _fail(made: Network, chance: random.Random, element: str, cut: Cut, repeat: float, *, delay: float) -> None:
    """Add the complaints of an element until the fault is repaired."""
    stream = {"SDH": "transport", "VC-": "circuits", "VPN": "traps"}[element[:3]]
    for at in _every(cut.begin + delay, min(cut.end, MINUTES * 60), repeat):
        _send(made, chance, stream, at, _complaint(element, at))
    if cut.end > MINUTES * 60:
        return
    at = cut.end + chance.uniform(1, 3)
    _send(made, chance, stream, at, _relief(element, at))


def _complaint(element: str, at: float) -> str:
    match element[:3]:
        case "SDH":
            return f"NE {element} {_clock(at)}\r\n   ALARM SIGNAL LOST PORT=W SEV=MAJOR"
        case "VC-":
            return f"VC={element} DOWN AT {_clock(at)}\r\nCAUSE: SIGNAL LOST"
        case _:
            link = f"router-{element[4]} linkDown vpn={element} metric=1 dest=10.{element[4]}.{element[6]}.0/24"
            return f"{_clock(at).replace(' ', 'T')}Z {link}"


def _relief(element: str, at: float) -> str:
    match element[:3]:
        case "SDH":
            return f"NE {element} {_clock(at)}\r\n   CLEAR SIGNAL LOST"
        case "VC-":
            return f"VC={element} UP AT {_clock(at)}"
        case _:
            return f"{_clock(at).replace(' ', 'T')}Z router-{element[4]} linkUp vpn={element}"


def _statuses(made: Network, chance: random.Random) -> None:
    """Add a status message of each node every five minutes; a few are truncated or garbled."""
    for element, layer, _ in made.topology:
        if layer == "SDH":
            for at in _every(chance.uniform(0, 300), MINUTES * 60, 300):
                _send(made, chance, "transport", at, f"NE {element} {_clock(at)}\r\n   STATUS OK")
    for at in (chance.uniform(60, 3000) for _ in range(7)):
        made.broken += 1
        stream, message = chance.choice(
            [
                ("transport", "NE SDH-1-1"),
                ("circuits", "\x07\x07~~"),
                ("switches", _report("43,0,ACT", at).replace("SWLVL=", "SW")),
            ]
        )
        _send(made, chance, stream, at, message)


def _switches(made: Network, chance: random.Random) -> None:
    """Add modules that fail, one of them repeatedly, and trunks that are taken out, one of them for too long."""
    for number in range(8):
        at = chance.uniform(60, 3000)
        _send(made, chance, "switches", at, _report(f"{number},0,ACT", at))
    made.repeated = ["43,0,ACT"]
    for at in _every(chance.uniform(100, 600), 3500, 200):
        _send(made, chance, "switches", at, _report(made.repeated[0], at))
    for number in range(5):
        at, away = chance.uniform(60, 2500), chance.uniform(1, 4) * 60
        if number == 0:
            away, made.stuck = 8 * 60, ["12-0"]
        _send(made, chance, "switches", at, f"+++ ARL-C {_clock(at)} 07 TRK\r\nRMV TRK=12-{number} BY=CRAFT")
        _send(
            made, chance, "switches", at + away, f"+++ ARL-C {_clock(at + away)} 07 TRK\r\nRST TRK=12-{number} BY=CRAFT"
        )


def _report(module: str, at: float) -> str:
    return (
        f"+++ ARL-C {_clock(at)} 07 SM\r\nREPT SM={module} HWLVL=0 SWLVL=RPI EVENT=57347\r\n\r\n"
        "PROC FAIL-ADDR=H'8311 FUNC=H'20 TIME=46:16.8\r\n\r\nORIG-HW-STATUS: H'14 H'0\r\nFINAL-HW-STATUS: H'0 H'0"
    )


def _send(made: Network, chance: random.Random, stream: str, at: float, message: str) -> None:
    made.messages[stream].append(
        (at + chance.uniform(0, 2), message)
    )  # the way to the operations center takes up to two seconds


def _every(begin: float, end: float, step: float) -> Iterator[float]:
    while begin < end:
        yield begin
        begin += step


def _clock(at: float) -> str:
    return f"{START + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S.%f}"
