"""Python code that users name in SQL: 'module:name', in places where other things may stand too 'python:module:name'.

All imports of users' code are made here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError

PREFIX = "python:"


def is_python_target(text: str) -> bool:
    """Return whether a text is written 'python:...'."""
    return text.startswith(PREFIX)


def search_hint() -> str:
    """Return a hint that says where modules are looked for."""
    folders = ", ".join(dict.fromkeys(folder or "." for folder in sys.path[:4]))
    return f"Python looks in {folders} and more; put the module there, or its folder on PYTHONPATH, on every worker too"


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """A function or class by the module that has it."""

    module: str
    name: str

    @classmethod
    def parse(cls, text: str) -> PythonTarget:
        """Read 'module:name'; ValueError if it is something else."""
        module, _, name = text.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), name)):
            raise ValueError(f"{text!r} is not written as 'module:name'")
        return cls(module, name)

    @classmethod
    def parse_prefixed(cls, text: str) -> PythonTarget:
        """Read 'python:module:name'; ValueError if it is something else."""
        if not is_python_target(text):
            raise ValueError(f"{text!r} is not written as 'python:module:name'")
        return cls.parse(text.removeprefix(PREFIX))

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self, what: str, *, error: type[HeadraceError], hint: str | None = None) -> Callable[..., Any]:
        """Import the module and return its function or class; raise `error`, which calls it `what`, if that fails."""
        importlib.invalidate_caches()  # the file may be new
        try:
            loaded: Callable[..., Any] = getattr(importlib.import_module(self.module), self.name)
        except Exception as cause:  # importing runs the user's code, which may raise anything
            raise error(f"cannot load {what} '{self}': {type(cause).__name__}: {cause}", hint=hint) from cause
        if not callable(loaded):
            wrong = f"{what} '{self}' is not a function but a value of type {type(loaded).__name__}"
            raise error(wrong, hint="name a function or a class")
        return loaded
