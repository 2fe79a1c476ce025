"""Messages of results, encoded once for all followers that are at the same place."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

#: So many bytes of messages are remembered; one that is larger is encoded for each follower.
MOST_BYTES = 8 * 1024 * 1024


class Encoded:
    """Remembers the newest messages by what they tell; used by several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._messages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the message of a key; others that want it wait while it is made."""
        with self._lock:
            if (known := self._messages.get(key)) is not None:
                return known
            made = self._messages[key] = make()
            self._bytes += len(made)
            while self._bytes > self._most:
                _, gone = self._messages.popitem(last=False)
                self._bytes -= len(gone)
            return made
