"""Python code that users name in SQL: 'module:name', in places where other things may stand too 'python:module:name'.

All imports of users' code are made here, of modules that are allowed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError
from headrace.model.allowed_python import allowed, how_to_allow

PREFIX = "python:"
#: What code of users may raise; sys.exit() ends neither the queries nor the process that runs them.
RAISED = (Exception, SystemExit)


def text_of(error: BaseException) -> str:
    """Return the class and the message of an error that code of users raised, which may fail to tell its message."""
    try:
        message = str(error)
    except RAISED as second:
        message = f"its message cannot be read ({type(second).__name__})"
    return f"{type(error).__name__}: {message}".encode(errors="backslashreplace").decode()  # it may have surrogates


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
        """Import the module and return its function or class; raise `error`, which calls it `what`, if that fails.

        What is not allowed is not even imported, since importing runs code.
        """
        known = allowed()
        if _exists(self.module) and not known.allows(self.module):
            wrong = f"cannot load {what} '{self}': statements may not use the module {self.module}"
            raise error(wrong, hint=how_to_allow(self.module))
        importlib.invalidate_caches()  # the file may be new
        try:
            loaded: Callable[..., Any] = getattr(importlib.import_module(self.module), self.name)
        except RAISED as cause:  # importing runs the user's code, which may raise anything
            fault = error(f"cannot load {what} '{self}': {text_of(cause)}", hint=hint)
            fault.lacks_code = True
            raise fault from cause
        if not callable(loaded):
            wrong = f"{what} '{self}' is not a function but a value of type {type(loaded).__name__}"
            fault = error(wrong, hint="name a function or a class")
            fault.lacks_code = True
            raise fault
        origin = _origin(loaded)
        if origin and origin.partition(".")[0] != self.module.partition(".")[0] and not known.allows(origin):
            wrong = f"cannot load {what} '{self}': it comes from the module {origin}, which statements may not use"
            raise error(wrong, hint=f"write a function around it, or allow {origin} as well; {how_to_allow(origin)}")
        return loaded


def _exists(module: str) -> bool:
    """Return whether the module, or the package that it is in, can be found; nothing is imported."""
    package = module.partition(".")[0]
    try:
        return package in sys.modules or importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return True


def _origin(loaded: Callable[..., Any]) -> str:
    """Return the module in which a function or class is defined; "" if that is not known."""
    is_defined = isinstance(loaded, type | types.FunctionType | types.BuiltinFunctionType)
    return getattr(loaded, "__module__", None) or "" if is_defined else ""
