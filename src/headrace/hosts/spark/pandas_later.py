"""Keeps Arrow from importing pandas in a worker before somebody uses pandas.

Arrow looks whether the first list that it turns into an array is one of pandas, and imports pandas for that if it is
installed. That takes more than a second of processor time in each worker, and Spark needs pandas installed. Once
somebody imports it, Arrow knows it as ever.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pyarrow as pa

_PANDAS = "pandas"


def import_pandas_later() -> None:
    """Let Arrow find no pandas until it is imported; nothing happens if it has been, or if Arrow has looked for it."""
    if _PANDAS in sys.modules or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.array([0])  # now it looks
    finder.is_hiding = False


class _Finder(MetaPathFinder):
    """Hides pandas at first, and tells Arrow when it is there."""

    def __init__(self) -> None:
        self.is_hiding = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PANDAS:
            return None
        if self.is_hiding:
            raise ModuleNotFoundError(f"No module named {_PANDAS!r}", name=_PANDAS)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_PANDAS)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: types.ModuleType) -> None:
                execute(module)
                getattr(pa.lib._pandas_api, "pd", None)  # it looks again

            setattr(spec.loader, "exec_module", execute_and_tell)  # noqa: B010  a method, to the type checker
        return spec
