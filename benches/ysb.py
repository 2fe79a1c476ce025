"""The Yahoo streaming benchmark beside plain Spark and Flink: views of advertisements by campaign, every ten seconds.

Of each event only the advertisement is known. A table says to which campaign an advertisement belongs, so each view
meets that table before it is counted. The table is a real one that all systems join, not a constant in the program.
Events come from Parquet files or Kafka; all systems write Parquet files, which are compared with DuckDB's answer.
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
from benches.parts.beside_peers import Events, measure, prepared, size_of
from benches.parts.dialects import FlinkText, Query
from benches.parts.peer_figures import case_of, summary
from benches.parts.whole_commands import start_once, whole_times

SEED = 17
#: As in the original: 100 campaigns of 10 advertisements each.
CAMPAIGNS, ADS = 100, 1000
_AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
_EVENTS = ("view", "click", "purchase")
_BASE_US = 1_767_225_600_000_000  # 2026-01-01
_COLUMNS = (
    "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, at TIMESTAMP, ip_address STRING"
)

VIEWS = Query(
    """SELECT c.campaign_id, count(*) AS n, window_end FROM ads [RANGE 10 SECONDS] AS a
      JOIN campaigns AS c ON a.ad_id = c.ad_id WHERE a.event_type = 'view' GROUP BY c.campaign_id""",
    """SELECT c.campaign_id, count(*) AS n, time_bucket(INTERVAL 10 SECOND, "at") + INTERVAL 10 SECOND AS window_end
      FROM ads AS a JOIN campaigns AS c ON a.ad_id = c.ad_id WHERE a.event_type = 'view' GROUP BY ALL""",
    """SELECT campaign_id, count(*) AS n, window(at, '10 seconds').end AS window_end
      FROM ads AS a JOIN campaigns AS c ON a.ad_id = c.ad_id WHERE event_type = 'view'
      GROUP BY campaign_id, window(at, '10 seconds')""",
    flink=FlinkText(
        """SELECT campaign_id, count(*), window_end FROM TABLE(
          TUMBLE(TABLE viewed, DESCRIPTOR(ms), INTERVAL '10' SECOND)) GROUP BY campaign_id, window_start, window_end""",
        views=(
            """CREATE VIEW viewed AS SELECT c.campaign_id, a.ms FROM (
              SELECT ad_id, ms FROM ads WHERE event_type = 'view') AS a
              JOIN campaigns FOR SYSTEM_TIME AS OF a.ms AS c ON a.ad_id = c.ad_id""",
        ),
    ),
    streams=("ads",),
)


def main(quick: bool, medium: bool = False, input: str = "files") -> dict[str, Any]:
    """Measure the query; `input` is files or kafka."""
    size = size_of(quick, medium)
    with prepared("ysb", events_of, [VIEWS], size=size, input=input, made_by=[__file__]) as place:
        cases = {"views": case_of(VIEWS, measure("views", VIEWS, place))}
        start_once()
        commands = {"views": whole_times("views", VIEWS, place.given)}
    title = f"Yahoo streaming benchmark from {input}, {size}"
    figures: dict[str, Any] = {"bench": "ysb", "title": title, "cases": cases, "commands": commands}
    summary(figures)
    return figures


def events_of(count: int, *, per_second: int = 10_000) -> Events:
    """Return so many events, and the campaigns of the advertisements."""
    chance = np.random.default_rng(SEED)
    ads, pages, users = (_names(chance, number) for number in (ADS, 100, 100))
    campaigns = np.repeat(_names(chance, CAMPAIGNS), ADS // CAMPAIGNS)
    at = _BASE_US + np.arange(count, dtype=np.int64) * (1_000_000 // per_second)
    stream = pa.table(
        {
            "user_id": chance.choice(users, count),
            "page_id": chance.choice(pages, count),
            "ad_id": chance.choice(ads, count),
            "ad_type": chance.choice(_AD_TYPES, count),
            "event_type": chance.choice(_EVENTS, count),
            "at": pa.array(at, pa.timestamp("us")),
            "ip_address": pa.repeat("1.2.3.4", count),
        }
    )
    table = pa.table({"ad_id": ads, "campaign_id": campaigns})
    tail = {"event_type": "view", "ad_id": "of no campaign"}
    return Events({"ads": stream}, {"ads": _COLUMNS}, {"campaigns": table}, tail)


def _names(chance: np.random.Generator, count: int) -> np.ndarray:
    """Return texts of the length of the original's identifiers."""
    return np.array([str(uuid.UUID(bytes=chance.bytes(16))) for _ in range(count)])
