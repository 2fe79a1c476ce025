"""Requests of a task to Spark's state that nobody waits for.

For each call on its state, a Python task of Spark sends a request to the JVM and waits for the answer. Of most answers
it only learns that the request was carried out: that the variable is known, the key set, a value written. These are
read later, all at once. The JVM handles requests in their order, so a value that is read is the one written before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkRuntimeError

#: No more bytes than this are sent without waiting. They fit into the buffer of the socket: if the JVM has failed and
#: reads no more, the task still gets to the answer that says so.
_UNANSWERED = 64 * 1024


class StateRequests:
    """Sends requests without waiting for their answers, from here on until `settle`."""

    def __init__(self, handle: Any) -> None:
        self._client = handle._statefulProcessorApiClient
        self._send, self._receive = self._client._send_proto_message, self._client._receive_proto_message
        self._client._send_proto_message, self._client._receive_proto_message = self._sent, self._received
        self._unanswered = 0
        self._bytes = 0  # sent since the last answer that was waited for
        self._is_awaited = False

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Wait for the answers to the requests within."""
        self._is_awaited = True
        try:
            yield
        finally:
            self._is_awaited = False

    def settle(self) -> None:
        """Wait for all answers, now and from now on; raise the first error among them."""
        del self._client._send_proto_message, self._client._receive_proto_message  # those of its class are back
        self._catch_up()

    def _sent(self, message: bytes) -> None:
        if self._bytes + len(message) > _UNANSWERED:
            self._catch_up()
        self._send(message)
        self._bytes += len(message)

    def _received(self) -> tuple[int, str, bytes]:
        if not self._is_awaited and self._bytes <= _UNANSWERED:
            self._unanswered += 1
            return 0, "", b""
        self._catch_up()
        answer: tuple[int, str, bytes] = self._receive()
        return answer

    def _catch_up(self) -> None:
        """Read the answers that are due before the next one."""
        self._bytes = 0
        while self._unanswered:
            self._unanswered -= 1
            status, error, _ = self._receive()
            if status:
                raise PySparkRuntimeError(f"Error in the state of a bucket: {error}")
