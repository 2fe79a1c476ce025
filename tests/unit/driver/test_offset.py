import msgspec

from headrace.driver.offset import START, ExchangeAt, Offset, StreamAt


def test_an_offset_survives_as_json() -> None:
    offset = Offset(
        time=5,
        commands=2,
        streams={"s": StreamAt(at=[3, 0], newest=4, live=True, fresh=5)},
        exchanges={"panes-1": ExchangeAt(at=7, bound=4)},
        budget=100,
        turn=1,
    )
    assert msgspec.json.decode(msgspec.json.encode(offset), type=Offset) == offset
    assert msgspec.convert(msgspec.to_builtins(START), Offset) == START


def test_time_alone_is_no_work() -> None:
    before = Offset(time=1, streams={"s": StreamAt(fresh=1)})
    assert before.work() == Offset(time=2, streams={"s": StreamAt(newest=9, fresh=2)}, budget=5).work()
    assert before.work() != Offset(time=1, streams={"s": StreamAt(at=1, fresh=1)}).work()
    assert before.work() != Offset(time=1, streams={"s": StreamAt(fresh=1)}, turn=1).work()


def test_what_an_offset_does_not_say_has_a_default() -> None:
    assert msgspec.convert({"time": 5, "streams": {"s": {"fresh": 3}}}, Offset) == Offset(
        time=5, streams={"s": StreamAt(fresh=3)}
    )
