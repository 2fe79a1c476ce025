"""Sends the Python modules beside a script to the executors of a cluster, which do not see the driver's folders."""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from headrace.hosts.spark.starting.scratch import private_folder
from headrace.model.allowed_python import Allowed

_LOG = logging.getLogger(__name__)
#: A folder with more than this is not a folder of modules.
FILES, BYTES = 1000, 16 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # the same modules are the same archive
#: Archives that an application has got, by their names.
_sent = set[tuple[str, str]]()


def ship_modules(context: SparkContext, python: Allowed) -> Allowed:
    """Send the modules in the allowed folders to executors; return what statements may name there."""
    modules = dict(modules_in(python.folders))
    if not modules:
        return python
    size = sum(file.stat().st_size for file in modules.values())
    if len(modules) > FILES or size > BYTES:
        _LOG.warning(
            "%d Python files (%d MB) in %s are too many to send to the executors; start from a folder with fewer, or "
            "install the modules there",
            len(modules),
            size >> 20,
            ", ".join(python.folders),
        )
        return python
    file = archive(modules, Path(private_folder()))
    sent = str(context.applicationId), file.name
    if sent not in _sent:  # Spark refuses a second file of that name
        context.addPyFile(str(file))  # executors fetch it whenever they start
        _sent.add(sent)
    names = {name.partition("/")[0].removesuffix(".py") for name in modules}
    packages = tuple(f"{name}.*" for name in sorted(names))
    return Allowed((*python.modules, *sorted(names), *packages), python.folders)


def added_paths(context: SparkContext) -> list[str]:
    """Return where the driver imports the Python files from that were added to Spark: a folder, and archives in it."""
    folder = SparkFiles.getRootDirectory()
    return [folder, *(os.path.join(folder, name) for name in context._python_includes or ())]


def modules_in(folders: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield the Python files of folders by their names as parts of a path: modules, and packages with all they hold."""
    for folder in map(Path, folders):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if entry.suffix == ".py" and entry.stem.isidentifier() and entry.is_file():
                yield entry.name, entry
            elif entry.name.isidentifier() and (entry / "__init__.py").is_file():
                for file in sorted(entry.rglob("*.py")):
                    yield str(file.relative_to(folder)), file


def archive(modules: dict[str, Path], folder: Path) -> Path:
    """Write modules into an archive that is named by its content; return it."""
    digest = hashlib.sha256()
    written = folder / "modules.zip"
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        for name, file in sorted(modules.items()):
            data = file.read_bytes()
            digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
            target.writestr(zipfile.ZipInfo(name, _TIME), data)
    return written.rename(folder / f"headrace-modules-{digest.hexdigest()[:16]}.zip")
