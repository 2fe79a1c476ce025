"""What goes wrong with files of HDFS; names of obstore's errors mean the same."""

from __future__ import annotations


class HdfsError(OSError):
    """What HDFS answered, or that it did not: the status and the name of Hadoop's exception."""

    def __init__(self, status: int | None, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class AlreadyExistsError(OSError):
    """There is such a file."""


class PreconditionError(OSError):
    """A file has changed."""
