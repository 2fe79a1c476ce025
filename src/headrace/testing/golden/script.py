"""The format of golden scripts: commands, a line of dashes, and the expected output.

    > CREATE STREAM bids (at TIMESTAMP, price DOUBLE) TIMESTAMP BY at FROM MEMORY

    > SELECT count(*) AS n FROM bids [RANGE 10 SECONDS]
    feed bids at=1s price=3, 4s, 11s
    ---
    10s: n=2
    20s: n=1

A blank line ends a case. A case without dashes prepares all cases that follow it; every other case runs in a session of
its own. A line that begins with a blank continues the command above it. The first word of a command is its verb:

    > statement           run a statement; an error is printed as the session renders it, and ends the case
    feed stream rows      push rows, separated by commas; a bare value belongs to the first column named
    advance [5s]          move the virtual clock, then process all that was fed so far
    register name         let rules CALL a function of this name, which does nothing
    optimize SELECT ...   print the plan, the optimizer rules that changed it, and the optimized plan
    explain SELECT ...    print the optimized plan, and which vertices run in the ingest and in the buckets
    graph                 print the vertices of all running queries, and where they run
    schedule ...          process what was fed, and print in which order the operators run (`order`)
    decide ...            print what the controller decides when a simulated machine gets this load (`load`)
    results               print the time, and what queries have delivered since the last such command
    statistics            print SHOW STATISTICS without what depends on the machine: bytes, and the time for a tuple
    # text                a comment; `# local` marks a case that needs the local host

At the end of a case the streams are closed. Result rows are printed in canonical order: by timestamp, then by content.
With several queries each line starts with the name of its query. A dash is NULL.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SEPARATOR = "---"
#: Marks a case that needs the local host: it depends on the virtual clock, or prints more than results.
LOCAL = "# local"


@dataclass(frozen=True, slots=True)
class Case:
    """The lines of one case and the number of its first line; `expected` is None for a case that only prepares."""

    line: int
    commands: tuple[str, ...]
    expected: tuple[str, ...] | None

    @property
    def is_local(self) -> bool:
        return LOCAL in self.commands


def cases(text: str) -> list[Case]:
    """Divide a script at its blank lines."""
    return [_case(match) for match in re.finditer(r"(?:^[^\n]*\S[^\n]*\n?)+", text, re.MULTILINE)]


def write_script(results: Iterable[tuple[Case, Sequence[str] | None]]) -> str:
    """Return the text of a script whose cases have given this output (None: a case that only prepares)."""
    blocks = [
        "\n".join(case.commands if output is None else [*case.commands, SEPARATOR, *output]) for case, output in results
    ]
    return "\n\n".join(blocks) + "\n"


def commands_of(lines: Iterable[str]) -> list[str]:
    """Join the lines of each command."""
    commands: list[str] = []
    for line in lines:
        if line[:1].isspace() and commands:
            commands[-1] += "\n" + line
        else:
            commands.append(line)
    return commands


def differences(name: str, expected: str, actual: str) -> str:
    """Show the cases of a script that gave another output: file, line, commands, and a diff. Empty if there is none."""
    shown: list[str] = []
    for old_case, new_case in zip(cases(expected), cases(actual), strict=True):
        if old_case.expected != new_case.expected:
            compared = difflib.ndiff(old_case.expected or (), new_case.expected or ())
            diff = [line for line in compared if not line.startswith("?")]
            shown += [f"{name}:{old_case.line}", *old_case.commands, SEPARATOR, *diff, ""]
    return "\n".join(shown)


def _case(block: re.Match[str]) -> Case:
    line = block.string.count("\n", 0, block.start()) + 1
    lines = block.group().splitlines()
    if SEPARATOR not in lines:
        return Case(line, tuple(lines), None)
    cut = lines.index(SEPARATOR)
    return Case(line, tuple(lines[:cut]), tuple(lines[cut + 1 :]))
