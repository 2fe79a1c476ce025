"""Lets Spark set the permissions of a local file itself.

Without Hadoop's native library, which PySpark does not bring along, Hadoop runs the command `chmod` for every file that
it makes, and for its checksum: eight processes for each micro-batch on two cores, all of which it waits for
(0237). Java has had a call for that since Java 7.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.hosts.spark.starting.installation import make_own

_LOG = logging.getLogger(__name__)
_CLASS = "headrace.LocalFiles"
_IMPLEMENTATION = "fs.file.impl"
_HADOOP = "spark.hadoop."
#: Hadoop's own classes for local files, with another `setPermission`. Only the command can set a sticky bit.
_SOURCE = """
package headrace;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Plain());
    }

    public static class Plain extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(
                    this.pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString())
                );
            }
        }
    }
}
"""


def use_local_files(gateway: Any, settings: Mapping[str, str], cache: Path) -> None:
    """Let a JVM without a Spark yet make files that way, unless the user chose a class for local files.

    The compiled class is kept in the cache folder. If anything fails, files are made as ever.
    """
    own = {name.removeprefix(_HADOOP): value for name, value in settings.items() if name.startswith(_HADOOP)}
    folder = cache / f"files-{hashlib.sha256(_SOURCE.encode()).hexdigest()[:12]}"
    jvm = gateway.jvm
    try:
        conf = jvm.org.apache.hadoop.conf.Configuration()
        if _IMPLEMENTATION in own or conf.get(_IMPLEMENTATION) or _is_native(jvm):
            return
        make_own(cache)
        if not folder.is_dir():
            _compile(jvm, folder)
        for name, value in own.items():
            conf.set(name, value)
        conf.setClassLoader(_loader(gateway, folder))
        conf.set(_IMPLEMENTATION, _CLASS)
        # Hadoop keeps the first file system of a kind for all who ask for one later
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), conf)
    except Exception:
        _LOG.debug("permissions of local files are set by chmod", exc_info=True)
        shutil.rmtree(folder, ignore_errors=True)  # it may be damaged


def _is_native(jvm: Any) -> bool:
    """Return whether Hadoop has its native library, and needs no command."""
    return bool(jvm.org.apache.hadoop.io.nativeio.NativeIO.isAvailable())


def _compile(jvm: Any, folder: Path) -> None:
    """Compile the class into a folder, with the compiler that Spark has for its own programs: half a second."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(_parent(jvm))
    compiler.cook(_SOURCE)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as made:
        for name, code in dict(compiler.getBytecodes()).items():
            path = Path(made, "classes", *name.split(".")).with_suffix(".class")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code)
        with suppress(OSError):  # another process was first
            Path(made, "classes").rename(folder)


def _loader(gateway: Any, folder: Path) -> Any:
    """Return what loads classes from a folder."""
    jvm = gateway.jvm
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URL(f"{folder.as_uri()}/")
    return jvm.java.net.URLClassLoader(urls, _parent(jvm))


def _parent(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
