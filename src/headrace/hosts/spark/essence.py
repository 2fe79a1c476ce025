"""The line of a failure of Spark that says what happened, among hundreds of lines of traces of several processes."""

from __future__ import annotations

import re

_EXCEPTION = re.compile(r"(?:Caused by: |: )?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Fault))(: .*)?")
#: Exceptions of Java, and those that only pass on another one.
_JAVA = ("java.", "javax.", "scala.", "org.", "com.", "io.", "jdk.", "sun.")
_PASSING_ON = ("py4j.", "pyspark.errors.exceptions.captured.")
#: Where Spark says of a task on which machine it failed, and then why.
_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \(.*? executor [^)]*\): (.+)")
_ABORTED = "Job aborted due to stage failure: "
#: Words of Spark's before the reason that it has.
_CLASS = re.compile(r"^(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?:Error|Exception): ")


def essence(text: str) -> str:
    """Return the line that says what happened.

    That is an error of ours; else the last exception of a Python process, which is the one that no other handled; else
    why a task failed; else what Spark said first.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line.split("headrace.errors.", 1)[1] for line in lines if "headrace.errors." in line]
    if ours:
        return ours[-1]
    exceptions = [match for line in lines if (match := _EXCEPTION.fullmatch(line))]
    python = [match[0] for match in exceptions if match[2] and not match[1].startswith((*_JAVA, *_PASSING_ON))]
    if python:
        return python[-1].removeprefix("Caused by: ").removeprefix(": ")
    tasks = [match[1] for line in lines if (match := _TASK.search(line))]
    if tasks and not tasks[-1].endswith("Traceback (most recent call last):"):
        return _CLASS.sub("", tasks[-1])
    java = [match[2].removeprefix(": ") for match in exceptions if match[2] and match[1].startswith(_JAVA)]
    if java:
        return java[0].removeprefix(_ABORTED)
    return lines[0] if lines else "unknown reason"
