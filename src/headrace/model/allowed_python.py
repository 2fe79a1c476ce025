"""Which Python modules statements may name.

Without a limit, a statement could call any function that is installed: `subprocess:getoutput` as a format runs every
line of the input. Allowed are modules beside the script that runs, and those that the user lists. The list belongs to
the process. The driver hands its own on to Spark's workers.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec import Struct

#: Lists modules, separated by commas.
VARIABLE = "HEADRACE_ALLOW_PYTHON"
#: Our own modules that were written for statements to call.
_OWN = ("headrace.applications.*", "headrace.testing.aggregates", "headrace.testing.windows")
#: Names of the folders of Python itself, of installed packages and of their programs.
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
_ENTRY = re.compile(r"\*|[^\W\d]\w*(\.[^\W\d]\w*)*(\.\*)?")


class Allowed(Struct, frozen=True):
    """Modules by name (`stats` is one module, `stats.*` all of a package, `*` all), and folders of whole modules."""

    modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def allows(self, module: str) -> bool:
        """Return whether statements may name what is in a module."""
        return any(_matches(entry, module) for entry in (*_OWN, *self.modules)) or self._is_beside(module)

    def _is_beside(self, module: str) -> bool:
        """Return whether a module lies in one of the folders; a part of a package if the package does."""
        places = _places(module.partition(".")[0])
        return bool(places) and all(place in self.folders for place in places)


_given = Allowed()


def allow(modules: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
    """Let statements in this process name further modules, and those in further folders."""
    global _given
    _given = Allowed(
        tuple(dict.fromkeys((*_given.modules, *map(_checked, modules)))),
        tuple(dict.fromkeys((*_given.folders, *map(os.path.realpath, folders)))),
    )


def allowed() -> Allowed:
    """Return what statements in this process may name."""
    listed = (entry.strip() for entry in os.environ.get(VARIABLE, "").split(","))
    return Allowed((*_given.modules, *filter(None, listed)), (*_given.folders, *_beside_program()))


def how_to_allow(module: str) -> str:
    """Return a hint that says how a module is allowed."""
    return (
        f"modules beside the script are allowed; allow this one with --allow-python {module}, {VARIABLE}={module} or "
        f"Session(python_modules=[{module!r}])"
    )


def _checked(entry: str) -> str:
    if _ENTRY.fullmatch(entry) is None:
        raise ValueError(f"{entry!r} is not a module, such as stats, stats.means or stats.*")
    return entry


def _matches(entry: str, module: str) -> bool:
    return entry in ("*", module) or (entry.endswith(".*") and f"{module}.".startswith(entry.removesuffix("*")))


def _places(package: str) -> list[str]:
    """Return the folders in which a module or package without dots lies; nothing is imported to find out."""
    if package == "__main__":
        return _beside_program()
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [os.path.dirname(os.path.realpath(folder)) for folder in spec.submodule_search_locations]
    return [os.path.dirname(os.path.realpath(spec.origin))] if spec.has_location and spec.origin else []


def _beside_program() -> list[str]:
    """Return the folder of the Python program, or the current one if it was typed in; none of installed code."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = Path(os.path.realpath(file)).parent if file else Path.cwd()
    return [] if any(str(path) in _installed() for path in (folder, *folder.parents)) else [str(folder)]


@cache
def _installed() -> frozenset[str]:
    """Return the folders of installed code, which stay the same."""
    return frozenset(os.path.realpath(sysconfig.get_path(name)) for name in _INSTALLED)
