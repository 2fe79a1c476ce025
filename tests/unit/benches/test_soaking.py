"""What the soak reads of the memory of a JVM."""

from benches.parts.soaking import Samples, native_parts

SMAPS = """\
e0000000-ffe00000 rw-p 00000000 00:00 0
Rss:              522240 kB
Anonymous:        522240 kB
55f80a0e5000-55f80bd8e000 rw-p 00000000 00:00 0                          [heap]
Rss:               22960 kB
Anonymous:         22000 kB
7f6b7c9f5000-7f6b7c9f9000 ---p 00000000 00:00 0
Anonymous:             0 kB
7f6b7c9f9000-7f6b7caf5000 rw-p 00000000 00:00 0
Anonymous:            96 kB
7f6b7cb00000-7f6b7cbfc000 rw-p 00000000 00:00 0
Anonymous:          1008 kB
7f6bec000000-7f6beddfd000 rw-p 00000000 00:00 0
Anonymous:         25000 kB
VmFlags: rd wr mr mw me ac sd
7f6beddfd000-7f6bf0000000 ---p 00000000 00:00 0
Anonymous:             0 kB
7f6bf0000000-7f6bf0021000 r--p 00000000 fe:00 1234                       /lib/lib c.so
Anonymous:             4 kB
"""


def test_the_c_heap_and_the_stacks_of_threads_are_told_from_the_rest() -> None:
    assert native_parts(SMAPS) == {"C heap": 47000 << 10, "stacks": 96 << 10}


def test_a_worker_that_was_not_there_all_the_time_is_not_judged() -> None:
    samples = Samples(workers={7: [(at, 80.0) for at in range(20)], 5: [(at, 90.0) for at in range(19)], 9: [(3, 1.0)]})
    samples.add_workers()
    assert {name: points[0][1] for name, points in samples.values.items()} == {
        "memory of worker 1 without mapped files (MB)": 90.0,
        "memory of worker 2 without mapped files (MB)": 80.0,
    }
