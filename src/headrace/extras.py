"""Packages that only some features need; each belongs to an extra of the distribution, such as `headrace[kafka]`."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias

from headrace.errors import HostFault

Extra: TypeAlias = Literal["kafka", "objects", "postgres", "serve", "otlp", "testing", "experiments"]
#: The launcher of a checkout, which installs extras there; an installed package has none.
LAUNCHER = Path(__file__).resolve().parents[2] / "headrace"


def load(module: str, extra: Extra, feature: str) -> ModuleType:
    """Import a module that an extra installs; if it is missing, HostFault names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise HostFault(missing(module, feature), hint=install_command(extra)) from error


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def missing(module: str, feature: str) -> str:
    """Say which package a feature lacks."""
    return f"{feature} needs the package {module.split('.')[0].replace('_', '-')}, which is not installed"


def install_command(extra: Extra) -> str:
    """Return the command that installs an extra: with the launcher in a checkout, else with pip."""
    return f"./headrace setup {extra}" if LAUNCHER.is_file() else f"pip install 'headrace[{extra}]'"
