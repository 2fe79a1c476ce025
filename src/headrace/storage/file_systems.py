"""Whether a directory is on a file system that only processes of this machine can change.

There a lock of the operating system says for sure whether the process that had it has ended.
"""

from __future__ import annotations

from pathlib import Path

#: Types of file systems on disks or in the memory of one machine. All others may be shared by machines.
_OF_ONE_MACHINE = frozenset(
    [
        "apfs",
        "bcachefs",
        "btrfs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "hfs",
        "jfs",
        "nilfs2",
        "ntfs3",
        "overlay",
        "ramfs",
        "reiserfs",
        "rootfs",
        "squashfs",
        "tmpfs",
        "ufs",
        "vfat",
        "xfs",
        "zfs",
    ]
)
_MOUNTS = Path("/proc/self/mountinfo")


def is_of_one_machine(directory: Path) -> bool:
    """Return whether no other machine can change a directory; where the system does not tell, that is assumed."""
    try:
        text = _MOUNTS.read_text(errors="replace")
    except OSError:
        return True
    return type_of(directory.resolve(), text) in _OF_ONE_MACHINE


def type_of(directory: Path, mounts: str) -> str | None:
    """Return the type of the file system that holds a directory, given the text of `mountinfo`; None: not known."""
    kinds: dict[Path, str] = {}
    for line in mounts.splitlines():
        place, _, kind = line.partition(" - ")
        fields = place.split(" ")
        if kind and len(fields) > 4:
            kinds[Path(_unescaped(fields[4]))] = kind.split(" ")[0]  # of several at one place the last is seen
    return next((kinds[path] for path in (directory, *directory.parents) if path in kinds), None)


def _unescaped(text: str) -> str:
    """Return a path as it is; `mountinfo` writes spaces and the like as octal numbers."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text
