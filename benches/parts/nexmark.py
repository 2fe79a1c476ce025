"""Nexmark: seeded people, auctions and bids in the published proportions."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

BASE_US = 1_767_225_600_000_000  # 2026-01-01, a border of every window used here
#: Of fifty events in a row, one is a person, three are auctions, and the rest are bids.
PEOPLE, AUCTIONS, EVENTS = 1, 3, 50
#: Auctions that get bids at a time, and people who bid at a time.
IN_FLIGHT, ACTIVE = 100, 1000
#: One of so many bids is for another auction than the hot one, or by another bidder, or of another seller.
HOT_AUCTION, HOT_BIDDER, HOT_SELLER = 2, 4, 4
FIRST_CATEGORY, CATEGORIES = 10, 5
_CITIES = np.array(["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"])
_STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])

PERSON = "id BIGINT, name STRING, email STRING, city STRING, state STRING, at TIMESTAMP"
AUCTION = (
    "id BIGINT, item STRING, initial BIGINT, reserve BIGINT, at TIMESTAMP, expires TIMESTAMP, seller BIGINT, "
    "category BIGINT"
)
BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP"
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}
#: No auction lasts longer.
LONGEST_US = 20_000_000
#: The table beside the stream of query 13.
SIDE_ROWS = 10_000


def generate(events: int, *, seed: int, per_second: int = 10_000) -> dict[str, pa.Table]:
    """Return the three streams of so many events, in the order of time; times are those of the whole sequence."""
    chance = np.random.default_rng(seed)
    number = np.arange(events, dtype=np.int64)
    at = BASE_US + number * (1_000_000 // per_second)
    place = number % EVENTS
    epoch = number // EVENTS
    newest_person = epoch * PEOPLE
    newest_auction = epoch * AUCTIONS + np.minimum(np.maximum(place - PEOPLE, 0), AUCTIONS - 1)
    is_person, is_auction = place < PEOPLE, (place >= PEOPLE) & (place < PEOPLE + AUCTIONS)
    is_bid = ~is_person & ~is_auction
    return {
        "person": _people(newest_person[is_person], at[is_person], chance),
        "auction": _auctions(newest_auction[is_auction], newest_person[is_auction], at[is_auction], chance),
        "bid": _bids(newest_auction[is_bid], newest_person[is_bid], at[is_bid], chance),
    }


def _people(number: np.ndarray, at: np.ndarray, chance: np.random.Generator) -> pa.Table:
    ids = 1000 + number
    names = [f"person {i}" for i in ids.tolist()]
    return pa.table(
        {
            "id": ids,
            "name": names,
            "email": [f"{i}@example.com" for i in ids.tolist()],
            "city": chance.choice(_CITIES, len(ids)),
            "state": chance.choice(_STATES, len(ids)),
            "at": _times(at),
        }
    )


def _auctions(number: np.ndarray, people: np.ndarray, at: np.ndarray, chance: np.random.Generator) -> pa.Table:
    count = len(number)
    hot = chance.integers(0, HOT_SELLER, count) > 0
    seller = np.where(hot, people // HOT_SELLER * HOT_SELLER, _recent(people, ACTIVE, chance))
    initial = _prices(count, chance)
    return pa.table(
        {
            "id": 1000 + number,
            "item": [f"item {i}" for i in chance.integers(0, 1000, count).tolist()],
            "initial": initial,
            "reserve": initial + _prices(count, chance),
            "at": _times(at),
            "expires": _times(at + chance.integers(1, LONGEST_US, count)),
            "seller": 1000 + seller,
            "category": FIRST_CATEGORY + chance.integers(0, CATEGORIES, count),
        }
    )


def _bids(auctions: np.ndarray, people: np.ndarray, at: np.ndarray, chance: np.random.Generator) -> pa.Table:
    count = len(auctions)
    hot = chance.integers(0, HOT_AUCTION, count) > 0
    auction = np.where(hot, auctions // IN_FLIGHT * IN_FLIGHT, _recent(auctions, IN_FLIGHT, chance))
    warm = chance.integers(0, HOT_BIDDER, count) > 0
    bidder = np.where(warm, people // HOT_BIDDER * HOT_BIDDER + 1, _recent(people, ACTIVE, chance))
    names = [f"channel-{i}" for i in range(10_000)] + _CHANNELS.tolist()
    plain, is_large = chance.integers(0, 10_000, count), chance.integers(0, 2, count) > 0
    channel = pa.array(names).take(pa.array(np.where(is_large, 10_000 + chance.choice(len(_CHANNELS), count), plain)))
    a, b, c = chance.integers(0, 1000, (3, count))
    known = chance.integers(0, 10, count) > 0
    folders = pl.DataFrame({"a": a, "b": b, "c": c, "known": known})
    number = pl.format("&channel_id={}", pl.col("a") * 1000 + pl.col("b"))
    url = folders.select(
        pl.format("https://www.nexmark.com/a{}/b{}/c{}/item.htm?query=1", "a", "b", "c")
        + pl.when("known").then(number).otherwise(pl.lit(""))
    ).to_series()
    return pa.table(
        {
            "auction": 1000 + auction,
            "bidder": 1000 + bidder,
            "price": _prices(count, chance),
            "channel": channel,
            "url": url.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string()),
            "at": _times(at),
        }
    )


def _recent(newest: np.ndarray, most: int, chance: np.random.Generator) -> np.ndarray:
    return newest - (chance.random(len(newest)) * np.minimum(newest + 1, most)).astype(np.int64)


def _prices(count: int, chance: np.random.Generator) -> np.ndarray:
    return np.round(10.0 ** (chance.random(count) * 6) * 100).astype(np.int64)


def _times(at: np.ndarray) -> pa.Array:
    return pa.array(at, pa.timestamp("us"))


def side_input() -> pa.Table:
    """Return the table that query 13 joins."""
    return pa.table({"key": np.arange(SIDE_ROWS, dtype=np.int64), "value": [f"value {i}" for i in range(SIDE_ROWS)]})
