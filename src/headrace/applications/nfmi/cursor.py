"""Run a cursor script over a message: the cursor moves, matches, and marks fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.applications.nfmi.script import (
    Begin,
    Constant,
    End,
    Find,
    Jump,
    Match,
    Move,
    Script,
    Separators,
    Step,
    Unit,
)

BLANKS = " \t"
#: The characters between fields, unless a script names others.
SEPARATORS = " \t:;."


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why a script rejects a message: the step that failed, where, and how many steps had succeeded."""

    script: str
    step: str
    line: int
    column: int
    done: int

    def __str__(self) -> str:
        return f"{self.script}: {self.step} fails at line {self.line}, column {self.column}"


Outcome: TypeAlias = Mapping[str, str] | Rejected


def extract(message: str, scripts: Sequence[Script]) -> Outcome:
    """Return the fields by the first script that accepts the message, else why the script that got furthest failed."""
    furthest: Rejected | None = None
    for script in scripts:
        match run(script, message):
            case Rejected() as rejected:
                if furthest is None or rejected.done > furthest.done:
                    furthest = rejected
            case fields:
                return fields
    return furthest or Rejected("", "a script", 1, 1, 0)


def run(script: Script, message: str) -> Outcome:
    """Run the steps of a script in order; return fields only if all steps succeed."""
    cursor = _Cursor(message)
    for done, (step, written) in enumerate(script.steps):
        if not cursor.take(step):
            before = cursor.text[: cursor.at]
            return Rejected(script.name, written, before.count("\n") + 1, cursor.at - before.rfind("\n"), done)
    return cursor.fields


class _Cursor:
    """A position in a text; every line ends with one newline, the last one too."""

    def __init__(self, message: str) -> None:
        self.text = message.replace("\r\n", "\n").rstrip("\n") + "\n"
        self.at = 0
        self.fields: dict[str, str] = {}
        self._begun: dict[str, int] = {}
        self._separators = SEPARATORS

    def take(self, step: Step) -> bool:
        """Run one step; return False if the message does not match."""
        match step:
            case Move(unit=unit, count=count):
                for _ in range(abs(count)):
                    self.at = self._forward(unit) if count > 0 else self._back(unit)
            case Jump(to=to):
                self.at = 0 if to == "bm" else len(self.text)
            case Match(expression=expression):
                return self._move_past(expression.match(self.text, self.at))
            case Find(expression=expression, scope=scope, count=count):
                return self._move_past(expression.search(self.text, self.at, self._end_of(scope, count)))
            case Begin(field=field):
                self._begun[field] = self.at
            case End(field=field):
                low, high = sorted((self._begun[field], self.at))
                self.fields[field] = self.text[low:high].strip(self._separators + BLANKS + "\n")
            case Constant(field=field, value=value):
                self.fields[field] = value
            case Separators(characters=characters):
                self._separators = characters
        return True

    def _move_past(self, matched: re.Match[str] | None) -> bool:
        if matched is None:
            return False
        self.at = matched.end()
        return True

    def _forward(self, unit: Unit) -> int:
        at, end = self.at, self._line_end(self.at)
        match unit:
            case "c":
                return min(at + 1, len(self.text))
            case "l":
                return min(end + 1, len(self.text))
            case "w":
                start = at
                while at < end and _in_word(self.text[at]):
                    at += 1
                at += at == start and at < end  # not in a word: skip one character
                between = BLANKS
            case "f":
                while at < end and self.text[at] not in self._separators:
                    at += 1
                between = self._separators
        while at < end and self.text[at] in between:
            at += 1
        return at  # never past the end of the line, so that the next `l` goes to the next line

    def _back(self, unit: Unit) -> int:
        at, begin = self.at, self.text.rfind("\n", 0, self.at) + 1
        match unit:
            case "c":
                return max(at - 1, 0)
            case "l":
                return self.text.rfind("\n", 0, max(begin - 1, 0)) + 1
            case "w":
                while at > begin and not _in_word(self.text[at - 1]):
                    at -= 1
                while at > begin and _in_word(self.text[at - 1]):
                    at -= 1
            case "f":
                while at > begin and self.text[at - 1] in self._separators:
                    at -= 1
                while at > begin and self.text[at - 1] not in self._separators:
                    at -= 1
        return at

    def _end_of(self, scope: str, count: int) -> int:
        """Return the end of a scope: `count` lines, up to the `count`-th empty line, or the message."""
        at = self.at
        for _ in range(count):
            match scope:
                case "line":
                    at = min(self._line_end(at) + 1, len(self.text))
                case "section":
                    empty_line = self.text.find("\n\n", at)
                    at = len(self.text) if empty_line < 0 else empty_line + 2
                case _:
                    return len(self.text)
        return at

    def _line_end(self, at: int) -> int:
        newline = self.text.find("\n", at)
        return len(self.text) if newline < 0 else newline


def _in_word(character: str) -> bool:
    return character.isalpha() or character == "-"
