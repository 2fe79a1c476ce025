"""`headrace serve` builds the console when it has the checkpoint, and goes on without a console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.serving.serve import CONSOLE, build_console
from headrace.session import Session


def builder(folder: Path, code: int) -> tuple[Path, Path]:
    """A script that notes that it ran, and the note."""
    script, note = folder / "build", folder / "built"
    script.write_text(f"import sys\nopen({str(note)!r}, 'a').close()\nsys.exit({code})\n")
    return script, note


@pytest.mark.parametrize("code", [0, 1])
def test_the_console_is_built_once_and_a_failure_is_said(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script, note = builder(tmp_path, code)
    monkeypatch.setenv(CONSOLE, str(script))
    build_console()
    assert note.exists()
    note.unlink()
    build_console()  # processes that this one starts build nothing
    assert not note.exists()
    assert ("the plain page is served instead" in capfd.readouterr().err) is bool(code)


@pytest.mark.slow
def test_a_checkpoint_in_use_is_refused_before_the_console_is_built(tmp_path: Path) -> None:
    script, note = builder(tmp_path, 0)
    with Session(tmp_path / "state", host="local") as session:
        session.execute("CREATE STREAM s (n INT) FROM MEMORY")
        command = [sys.executable, "-m", "headrace", "serve", "--host", "local", "--checkpoint", "state"]
        refused = subprocess.run(
            [*command, "--bind", "127.0.0.1:0"],
            cwd=tmp_path,
            env=os.environ | {CONSOLE: str(script)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert refused.returncode == 1
    assert "in use" in refused.stderr
    assert not note.exists()
