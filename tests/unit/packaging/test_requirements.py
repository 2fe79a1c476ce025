"""The requirement files: every package with its version and hashes, for every platform, and nothing missing."""

from __future__ import annotations

import importlib.metadata
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from headrace.cli.test import checkout

FOLDER = checkout() / "requirements"
FILES = sorted(FOLDER.glob("*.txt"))
#: The files that are installed together; the launcher knows them as well.
SETS = {
    "run": ("run",),
    "experiments": ("run", "experiments"),
    "dev": ("run", "experiments", "dev"),
    "kafka": ("run", "kafka"),
    "objects": ("run", "objects"),
    "postgres": ("run", "postgres"),
    "java": ("run", "java"),
}
PLATFORMS = [("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64")]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ENVIRONMENTS = [
    {
        "extra": "",
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": system,
        "platform_system": title,
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
    }
    for python in PYTHONS
    for system, title, machine in PLATFORMS
]


def is_needed(requirement: Requirement) -> bool:
    return requirement.marker is None or any(map(requirement.marker.evaluate, ENVIRONMENTS))


def pins(name: str) -> set[str]:
    return {canonicalize_name(pin) for pin in re.findall(r"(?m)^([\w.\-]+)==", (FOLDER / f"{name}.txt").read_text())}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_package_has_a_version_and_hashes_and_no_address(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    for block in re.split(r"(?m)^(?=[^\s#])", text)[1:]:
        if not block.startswith("-r "):
            assert re.fullmatch(r"[\w.\-]+==[\w.]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", block), block


@pytest.mark.parametrize("name", SETS)
def test_what_a_package_needs_is_pinned_too_on_every_platform(name: str) -> None:
    pinned = {pin for file in SETS[name] for pin in pins(file)}
    missing = set()
    for package in pinned:
        try:
            needed = [Requirement(text) for text in importlib.metadata.requires(package) or ()]
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that is not installed here
        for requirement in needed:
            if canonicalize_name(requirement.name) not in pinned and is_needed(requirement):
                missing.add(f"{package} needs {requirement}")
    assert missing == set()


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    pytest.importorskip("pip")
    loader = SourceFileLoader("requirements_lock", str(FOLDER / "lock"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6-cp313-cp313-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl", True),
        ("numpy-2.4.6-cp312-cp312-macosx_14_0_arm64.whl", True),
        ("numpy-2.4.6-cp314-cp314-musllinux_1_2_x86_64.whl", True),
        ("polars-2.4.6-py3-none-any.whl", True),
        ("py4j-2.4.6-py2.py3-none-any.whl", True),
        ("ruff-2.4.6-cp38-abi3-macosx_11_0_arm64.whl", True),
        ("numpy-2.4.6.tar.gz", True),
        ("numpy-2.4.6-cp312-cp312-win_amd64.whl", False),
        ("numpy-2.4.6-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("numpy-2.4.6-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
        ("numpy-2.4.7-cp312-cp312-macosx_14_0_arm64.whl", False),
        ("numpy-2.4.6.exe", False),
    ],
)
def test_the_hashes_are_those_of_all_files_that_can_be_installed(lock: ModuleType, file: str, fits: bool) -> None:
    assert lock.fits(file, lock.Version("2.4.6")) is fits


def test_raising_a_pin_replaces_its_hashes(lock: ModuleType) -> None:
    text = (
        "# note\n-r run.txt\na==1 \\\n    --hash=sha256:" + "0" * 64 + " \\\n    --hash=sha256:" + "1" * 64 + "\nb==2\n"
    )
    assert lock.HASHES.sub("", text) == "# note\n-r run.txt\na==1\nb==2\n"
    assert lock.PIN.findall("# note\na==1 \\\nb.c-d==2.0\n") == [("a", "1"), ("b.c-d", "2.0")]
