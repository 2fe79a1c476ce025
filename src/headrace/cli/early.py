"""Starts Spark's JVM for `headrace run` before this process has imported the rest: both take more than a second.

Only what the start itself needs is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.cli import java
from headrace.errors import HeadraceError
from headrace.hosts.spark.starting import context
from headrace.hosts.spark.starting.launch import GATEWAY

#: Options of `headrace run` that do not change how the JVM starts: with a value, and without.
_VALUES = ("--checkpoint", "--buckets", "--fail-on", "--allow-python")
_FLAGS = ("--once", "--stats", "--no-restart")


def begin(program: str, arguments: Sequence[str]) -> None:
    """Start the JVM if these are the arguments of `headrace run` with nothing special."""
    script = script_of(arguments) if Path(program).name in ("headrace", "__main__.py") else None
    if script is None or GATEWAY in os.environ or "SPARK_REMOTE" in os.environ:
        return
    share_folder(script)  # workers have the environment of the JVM
    try:
        context.begin(java.prepare, is_short="--once" in arguments)
    except HeadraceError:
        return  # the command says what is wrong


def script_of(arguments: Sequence[str]) -> Path | None:
    """Return the script of `headrace run`; None if anything is unusual, or if a checkpoint is continued."""
    if arguments[:1] != ["run"]:
        return None
    scripts: list[Path] = []
    values = iter(arguments[1:])
    for argument in values:
        name, _, value = argument.partition("=")
        if name in _VALUES:
            value = value or next(values, "")
            if name == "--checkpoint" and ("://" in value or Path(value).exists()):
                return None
        elif argument.startswith("-"):
            if argument not in _FLAGS:
                return None
        else:
            scripts.append(Path(argument))
    return scripts[0] if len(scripts) == 1 and scripts[0].is_file() else None


def share_folder(script: Path) -> str:
    """Let Spark's workers import the Python code beside a script; return its folder."""
    folder, path = str(script.resolve().parent), os.environ.get("PYTHONPATH", "")
    if path.split(os.pathsep)[0] != folder:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, path)))
    return folder
