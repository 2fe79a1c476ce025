"""Notes which files a Python process writes outside of its temporary folder; for processes under test."""

import os
import sys

_ALLOWED = (os.environ["TMPDIR"], os.path.expanduser("~/.cache/headrace"), "/dev/", "/proc/")
_NOTES = os.open(os.environ["HEADRACE_TEST_NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _watch(event: str, args: tuple) -> None:
    if event not in ("open", "os.mkdir", "os.rename", "os.link", "os.symlink"):
        return
    path, is_written = args[0], True
    if event == "open":
        _, mode, flags = args
        is_written = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR)) or not {*str(mode or "")} <= {*"rbt"}
    if is_written and isinstance(path, str | bytes):
        full = os.path.abspath(os.fsdecode(path))
        if not full.startswith(_ALLOWED) and not full.endswith(".pyc") and "__pycache__" not in full:
            os.write(_NOTES, f"{event} {full}\n".encode())


sys.addaudithook(_watch)
