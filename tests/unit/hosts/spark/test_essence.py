"""The line of a failure that helps."""

import pytest

from headrace.hosts.spark.essence import essence

OURS = """
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "bucket.py", line 7, in run
headrace.errors.OperatorFault: division by zero in totals
headrace culprits: [[[113],0]]
	at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:640)
Caused by: java.lang.RuntimeException: other
"""
WORKER = """
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.2 executor 1): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1
ModuleNotFoundError: No module named 'headrace'
	at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:640)
Driver stacktrace: SQLSTATE: XXKST
"""  # noqa: E501
LOST = """
An error occurred while calling o118.collectToPython.
py4j.protocol.Py4JJavaError: An error occurred while calling o118.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried.
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: java.io.IOException: gone
"""  # noqa: E501
PROGRAM = """
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 7) (10.0.0.2 executor 1): java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory
	at java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""  # noqa: E501
KILLED = """
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 7) (10.0.0.2 executor 1): ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137
Driver stacktrace:
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (OURS, "OperatorFault: division by zero in totals"),
        (WORKER, "ModuleNotFoundError: No module named 'headrace'"),
        (LOST, "A shuffle map stage with indeterminate output was failed and retried."),
        (PROGRAM, 'Cannot run program "/opt/python": error=2, No such file or directory'),
        (
            KILLED,
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137",
        ),
        ("OSError: AF_UNIX path too long\n\tat java.Class", "OSError: AF_UNIX path too long"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat java.Class", "Java heap space"),
        ("something else\nmore", "something else"),
        ("", "unknown reason"),
    ],
)
def test_the_line_that_helps_is_found(text: str, line: str) -> None:
    assert essence(text) == line
