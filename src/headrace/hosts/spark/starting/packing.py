"""An archive of what executors need, for machines that have Spark and Python but no package of ours.

Spark unpacks it beside each executor, as `environment`. `environment/bin/python` starts the Python of the machine that
has the version of the driver's, with the packages of the archive on its path.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage import files

#: The folder into which Spark unpacks the archive beside an executor, and the Python in it.
FOLDER = "environment"
PYTHON = f"./{FOLDER}/bin/python"
#: Packages that Spark brings along.
OF_SPARK = frozenset({"pyspark", "py4j"})
#: Packages of extras, which executors need if the driver has them.
EXTRAS = ("confluent-kafka", "obstore")
_LEFT_OUT = re.compile(r"(^|/)(tests|__pycache__|include|.*\.pyc|direct_url\.json|INSTALLER|RECORD|REQUESTED)(/|$)")

_STARTER = """#!/bin/sh
# Starts Python {version} of this machine with the packages beside this script.
folder=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
export PYTHONPATH="$folder/packages${{PYTHONPATH:+:$PYTHONPATH}}"
for python in ${{HEADRACE_EXECUTOR_PYTHON:-}} python{version} /usr/local/bin/python{version} {driver} python3; do
    if "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2>/dev/null; then
        exec "$python" "$@"
    fi
done
echo "there is no Python {version} on $(hostname); HEADRACE_EXECUTOR_PYTHON can name one" >&2
exit 127
"""


def pack(target: Path) -> int:
    """Write the archive; return its size in bytes."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, "bin/python", starter().encode(), mode=0o755)
        for name, file in sorted(contents()):
            _add(archive, f"packages/{name}", file.read_bytes())
    files.replace(target, buffer.getvalue())
    return buffer.tell()


def packed(folder: Path) -> Path:
    """Return an archive of the packages as they are now, from an earlier call if nothing has changed."""
    digest = hashlib.sha256(starter().encode())
    for name, file in sorted(contents()):
        status = file.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    archive = folder / f"environment-{digest.hexdigest()[:16]}.tar.gz"
    if not archive.exists():
        for old in folder.glob("environment-*.tar.gz"):
            old.unlink(missing_ok=True)
        pack(archive)
    return archive


def starter(version: str | None = None) -> str:
    """Return the script that starts Python on an executor."""
    driver = f"{sys.base_prefix}/bin/python3"
    return _STARTER.format(version=version or f"{sys.version_info.major}.{sys.version_info.minor}", driver=driver)


def contents() -> Iterator[tuple[str, Path]]:
    """Yield the files of the archive by their names in it: our package, and what it needs on executors."""
    package = Path(__file__).resolve().parents[3]
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield f"headrace/{file.relative_to(package)}", file
    for distribution in distributions():
        for path in distribution.files or ():
            if not path.parts[0].startswith("..") and not _LEFT_OUT.search(str(path)):
                file = Path(str(distribution.locate_file(path)))
                if file.is_file():
                    yield str(path), file


def distributions() -> list[importlib.metadata.Distribution]:
    """Return the installed packages that executors need beside ours, with what these need in turn."""
    chosen: dict[str, importlib.metadata.Distribution] = {}
    waiting = [*_needed(importlib.metadata.distribution("headrace")), *EXTRAS]
    while waiting:
        name = _normal(waiting.pop())
        if name in chosen or name in OF_SPARK:
            continue
        try:
            chosen[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name not in EXTRAS:
                raise HostFault(
                    f"the package {name} is not installed, and executors need it", hint="install headrace with pip"
                ) from None
            continue
        waiting += _needed(chosen[name])
    return [chosen[name] for name in sorted(chosen)]


def _needed(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the names of the packages that one needs; those of extras, or of other platforms, are left out."""
    names = []
    for requirement in distribution.requires or ():
        text, _, condition = requirement.partition(";")
        match = re.match(r"[\w.-]+", text)
        if match and (not condition or ("extra" not in condition and _is_installed(match[0]))):
            names.append(match[0])
    return names


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, 315_532_800  # 1980: the same packages are the same archive
    archive.addfile(entry, io.BytesIO(data))
