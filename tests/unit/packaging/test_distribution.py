"""The wheel and the source distribution: what they hold, and that an installed `headrace` runs a query."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "headrace"
# building and installing may take a while beside other tests
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def finish(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HEADRACE_DEBUG")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run(*command: str | Path, folder: Path) -> str:
    finished = finish(*command, folder=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    assert (
        "warn" not in run(sys.executable, "-W", "error", "-m", "hatchling", "build", "-d", folder, folder=ROOT).lower()
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def source(built: Path) -> Path:
    (file,) = built.glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment that has the wheel, and sees the packages of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=importlib.util.find_spec("pip") is None, symlinks=True)
    python = folder / "bin" / "python"
    paths = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    # a path in a .pth file brings packages, but not this environment's own .pth files: Headrace comes from the wheel
    (Path(paths.strip()) / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed")
    run(python, "-m", "pip", "install", *options, wheel, folder=folder)
    return folder / "bin"


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    reason = PACKAGE / "server" / "console" / "reason.txt"  # why the console could not be built here
    expected = {str(path.relative_to(PACKAGE.parent)) for path in files - {reason}}
    described = {name for name in names(wheel) if ".dist-info/" in name}
    assert names(wheel) - described == expected
    assert {name.split(".dist-info/")[1] for name in described} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_wheel_has_its_resources_and_its_types(wheel: Path) -> None:
    assert {
        "headrace/py.typed",
        "headrace/cli/demo/speed_map.sql",
        "headrace/applications/car_adn/car_adn.sql",
        "headrace/applications/nfmi/traps.cursor",
    } <= names(wheel)


def test_heavy_packages_are_extras(wheel: Path) -> None:
    described = metadata(wheel)
    needed = [line for line in described.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in needed if line.startswith(("matplotlib", "confluent", "psycopg", "hypothesis"))]
    assert set(described.get_all("Provides-Extra", [])) == {
        "kafka",
        "objects",
        "postgres",
        "serve",
        "otlp",
        "testing",
        "experiments",
    }


def test_the_source_distribution_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "src",
    }
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", folder=folder)
    assert names(tmp_path / "dist" / wheel.name) == names(wheel)


def test_an_installed_headrace_explains_and_runs_a_query(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bids.csv").write_text("at,item\n2026-01-01 00:00:01,1\n2026-01-01 00:00:12,2\n")
    script = tmp_path / "bids.sql"
    script.write_text(
        "CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM FILES (path 'bids.csv', format 'csv');\n"
        "CREATE QUERY counts AS SELECT count(*) AS n, max(item) AS item FROM bids [RANGE 10 SECONDS]\n"
        "  INTO FILES (path 'counts', format 'csv');\n"
    )
    headrace = installed / "headrace"
    place = "import headrace; print(headrace.__file__)"
    assert str(installed.parent) in run(installed / "python", "-c", place, folder=tmp_path)
    assert "output of query" in run(headrace, "explain", script, folder=tmp_path)
    run(headrace, "run", script, "--once", "--host", "local", folder=tmp_path)
    rows = [line for part in sorted((tmp_path / "counts").rglob("*.csv")) for line in part.read_text().split()[1:]]
    assert rows == ["1,1", "1,2"]


def test_commands_for_a_checkout_say_so_elsewhere(installed: Path, tmp_path: Path) -> None:
    finished = finish(installed / "headrace", "bench", "core", folder=tmp_path)
    assert finished.returncode == 1
    assert "checkout" in finished.stderr
