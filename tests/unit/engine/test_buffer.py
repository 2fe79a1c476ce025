import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.buffer import Buffer
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("page"), st.integers(1, 4)),
        st.tuples(st.just("mark"), st.integers(0, 9)),
        st.tuples(st.just("carry"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["take 0", "take 1"]), st.one_of(st.none(), st.integers(1, 5))),
    ),
    max_size=25,
)


def page(size: int) -> Page:
    return Page(pl.DataFrame({TS: list(range(size))}))


@settings(deadline=None, max_examples=60)
@given(ACTIONS)
def test_queued_is_the_number_of_tuples_that_elements_gives(actions: list[tuple[str, int | None]]) -> None:
    buffer = Buffer(2)
    for kind, number in actions:
        if kind == "page":
            buffer.append([page(number or 1)])
        elif kind == "mark":
            buffer.append([Punctuation(number or 0)])
        elif kind == "carry" and not buffer._taken[1]:
            buffer.carry(1, [(page(number or 1), 0), (Punctuation(0), 0)])
        elif kind.startswith("take") and buffer.unread(int(kind[-1])):
            buffer.take(int(kind[-1]), number)
        for reader in (0, 1):
            assert buffer.queued(reader) == sum(
                len(element) for element in buffer.elements(reader) if isinstance(element, Page)
            )
