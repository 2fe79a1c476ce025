"""What a disk holds after something went wrong with the machine."""

from __future__ import annotations

import random
from collections.abc import Iterator

from headrace.testing.deployment.disk import Change, Content, Image, apply


def killed(image: Image) -> Image:
    """Return the disk after the process died: everything that was written stays, and is on disk some time later."""
    return Image(image.seen())


def power_cuts(image: Image, count: int, chance: random.Random) -> Iterator[Image]:
    """Yield disks after a power cut: the one that lost all it could, the one that lost nothing, and random ones.

    They differ from each other; fewer than `count` if there are no more.
    """
    known: list[dict[str, bytes]] = []
    for number in range(count):
        content = dict(image.forced)
        for change in image.waiting:
            files = _survived(change, chance) if number > 1 else change.files
            if number and files is not None:
                apply(content, files)
        if content not in known:
            known.append(content)
            yield Image(content)


def flipped(image: Image, path: str, bit: int) -> Image:
    """Return the disk with one bit of a file changed at rest."""
    content = image.seen()
    data = bytearray(content[path])
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return Image({**content, path: bytes(data)})


def without(image: Image, path: str) -> Image:
    """Return the disk without a file that was deleted at rest."""
    content = image.seen()
    del content[path]
    return Image(content)


def _survived(change: Change, chance: random.Random) -> tuple[tuple[str, Content], ...] | None:
    """Return what is left of a change; None: nothing of it."""
    if chance.randrange(2):
        return None
    if change.sure is None or chance.randrange(2):
        return change.files
    # the name is there, the content is not, or in part
    shortest = change.sure
    return tuple(
        (path, None if data is None else data[: chance.choice((shortest, chance.randint(shortest, len(data))))])
        for path, data in change.files
    )
