"""The small rows of a task travel as one."""

import pytest

from headrace.errors import HostFault
from headrace.worker.bundles import Bundler, bundled, unbundled
from headrace.worker.wire import Kind, Row

SMALL = [
    Row(3, Kind.RESULT, "q", 1 << 31, 2, b"page"),
    Row(4, Kind.STAGED, "größe", 1, 7, b"\x00name"),
    Row(9, Kind.PARTIAL, "12", 0, 0, b""),
    Row(3, Kind.REPORT, "", 0, 6, b"report" * 100),
]


def test_rows_are_what_they_were_and_the_bundle_knows_the_commands_in_force() -> None:
    bundle = bundled(SMALL)
    assert (bundle.kind, bundle.n) == (Kind.BUNDLE, 6)
    large = Row(1, Kind.RESULT, "q", 0, 1, b"x" * 100_000)
    assert unbundled([large, bundle]) == [large, *SMALL]


def test_small_rows_wait_for_the_last_bucket_and_large_ones_do_not() -> None:
    bundler = Bundler()
    large = Row(1, Kind.RESULT, "q", 0, 1, bytes(range(256)) * 400)
    assert bundler.after([SMALL[0], large], is_last=False) == [large]
    (last,) = bundler.after(SMALL[1:], is_last=True)
    assert unbundled([last]) == SMALL
    assert bundler.after([], is_last=True) == []


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_damaged_bundle_is_a_fault_that_says_so(cut: int) -> None:
    bundle = bundled(SMALL)
    with pytest.raises(HostFault, match="a bundle of a task is damaged"):
        unbundled([Row(bundle.bucket, bundle.kind, "", 0, 6, bundle.payload[:-cut])])
    broken = bytearray(bundle.payload)
    broken[len(broken) // 2] ^= 0xFF
    with pytest.raises(HostFault, match="a bundle of a task is damaged"):
        unbundled([Row(bundle.bucket, bundle.kind, "", 0, 6, bytes(broken))])
