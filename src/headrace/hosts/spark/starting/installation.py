"""What Spark's JVM is started from: the installed Spark without its Python sources, and an archive of classes.

Both shorten a start. Spark puts `python/lib/pyspark.zip` first on the path of its Python processes, and each of them
would compile the sources in it again; the installed package has them compiled. Most of the time of a new JVM goes into
loading and checking classes of Spark. Java can keep them in a file (class data sharing): the first JVM writes it when
it ends, later ones map it. Both lie in a cache folder that can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import site
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from headrace.storage.disk import make_directory

#: The first bytes of an archive of classes. Java writes them last.
MAGIC = (0xF00BABA8).to_bytes(4, "little")
#: A JVM that is to write the archive has this long before another one may try; it writes when it ends.
CLAIM_SECONDS = 600.0
#: Archives of other versions of Java or Spark that are kept; each has about 180 megabytes.
KEPT = 2
#: Folders that Spark adds to its class path. Java archives classes only if all of that are jars.
_CLASS_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for files that can be made again at any time."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def spark_home(folder: Path) -> Path | None:
    """Return a Spark home without the zip of Python sources; None if workers would not find pyspark without it.

    Nor if the installed Spark has settings in a folder `conf`, which must be used.
    """
    package = Path(pyspark.__file__).resolve().parent
    packages = {Path(path).resolve() for path in (*site.getsitepackages(), site.getusersitepackages())}
    if (
        package.parent not in packages
        or not (package / "bin" / "spark-submit").is_file()
        or (package / "conf").exists()
    ):
        return None
    home = folder / f"spark-{_hash(str(package))}"
    try:
        make_own(folder)
        home.mkdir(mode=0o700, exist_ok=True)
        for name in ("bin", "jars"):
            if not (home / name).exists():
                (home / name).symlink_to(package / name)
    except FileExistsError:
        pass  # another process is making it at this moment
    except OSError:
        return None  # the folder is not writable: a start takes longer
    return home


def class_options(home: Path, folder: Path, environ: Mapping[str, str]) -> str:
    """Return options by which a JVM maps the archive of classes, or writes it when it ends; "" if it can do neither."""
    java = _java(environ)
    if java is None or (home / "conf").exists() or any(environ.get(name) for name in _CLASS_FOLDERS):
        return ""
    try:
        make_own(folder)
        archive = folder / f"classes-{_identity(java, home)}.jsa"
        _publish(archive, java)
        if archive.exists():
            option = f"-XX:SharedArchiveFile={archive}"
        elif _claim(archive.with_suffix(".claim")):
            option = f"-XX:ArchiveClassesAtExit={archive.with_suffix(f'.{os.getpid()}.new')}"
        else:
            return ""
    except OSError:
        return ""  # the folder is not writable: a start takes longer
    return f'"{option}" -Xshare:auto -Xlog:cds*=off'  # an archive that does not fit is not used, without a word


def make_own(folder: Path) -> None:
    """Make the cache folder; OSError unless it is this user's alone: Java runs what an archive of classes holds."""
    try:
        make_directory(folder)
    except FileExistsError as error:
        raise PermissionError(f"{folder} is not a folder") from error
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def _java(environ: Mapping[str, str]) -> Path | None:
    """Return the Java that Spark will start, if it comes with an archive of its own classes to build upon."""
    home = environ.get("JAVA_HOME")
    name = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH", ""))
    if name is None:
        return None
    java = Path(name).resolve()
    return java if (java.parents[1] / "lib" / "server" / "classes.jsa").is_file() else None


def _identity(java: Path, home: Path) -> str:
    """Return a name for this Java with these jars; Java checks in addition that the archive fits."""
    binary, jars = java.stat(), (home / "jars").stat()
    return _hash(
        repr((str(java), binary.st_size, binary.st_mtime_ns, str(home), jars.st_mtime_ns, pyspark.__version__))
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _publish(archive: Path, java: Path) -> None:
    """Give a complete archive that a JVM has written its name, and remove those that are of no use."""
    for fresh in archive.parent.glob(f"{archive.stem}.*.new"):
        with fresh.open("rb") as file:
            written = file.read(len(MAGIC)) == MAGIC
            os.fsync(file.fileno())
        if written and _is_sound(fresh, java):
            fresh.replace(archive)
            for old in sorted(archive.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)[: -KEPT - 1]:
                old.unlink(missing_ok=True)
        elif written or time.time() - fresh.stat().st_mtime > CLAIM_SECONDS:
            fresh.unlink(missing_ok=True)


def _is_sound(archive: Path, java: Path) -> bool:
    """Return whether Java can map an archive and finds its checksums right; a part of one would make it crash."""
    options = (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:cds")
    crash = ("-XX:ErrorFile=/dev/null", "-XX:-CreateCoredumpOnCrash", "-XX:+IgnoreUnrecognizedVMOptions")
    trial = subprocess.run([java, *options, *crash, "-version"], capture_output=True, text=True, check=False)
    return trial.returncode == 0 and "verification failed" not in trial.stdout + trial.stderr


def _claim(path: Path) -> bool:
    """Return whether this process may write the archive: one at a time."""
    if path.exists() and time.time() - path.stat().st_mtime > CLAIM_SECONDS:
        path.unlink(missing_ok=True)
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True
