"""Rules on events: what they do with what is detected, from SQL, on the local host."""

from __future__ import annotations

import datetime
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.spool import stream_spool
from headrace.errors import NameFault
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.rules import CreateRule
from headrace.model.events.event import Mode
from headrace.model.streams import failed_stream
from headrace.session import Session
from headrace.session.outcome import Listing, Message
from headrace.testing.clock import VirtualClock

STREAMS = """
CREATE STREAM immobile (at TIMESTAMP, carId INT, segment INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM slowing (at TIMESTAMP, carId INT, segment INT) TIMESTAMP BY at FROM MEMORY;
CREATE EVENT accident AS immobile SEQUENCE slowing WITHIN 10 MINUTES;
"""
NEW_YEAR = datetime.datetime.fromisoformat("2026-01-01")
#: The history of the vectors: a1 a2 b1 a3 b2 b3.
VECTOR = {"immobile": (1, 2, 4), "slowing": (3, 5, 6)}


def row(at: float, car: int, segment: int = 1) -> dict[str, Any]:
    return {"at": NEW_YEAR + datetime.timedelta(seconds=at), "carId": car, "segment": segment}


def push_vector(session: Session) -> None:
    """Cars are named after the seconds at which they are seen."""
    for stream, seconds in VECTOR.items():
        session.push(stream, [row(second, second) for second in seconds])


def pairs(session: Session, rule: str) -> list[tuple[int, int]]:
    return sorted((found["carId"], found["carId_1"]) for found in session.results(rule))


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(host="local", buckets=3, limit=2) as made:
        made.execute(STREAMS)
        yield made


def test_one_event_is_detected_in_the_context_of_each_rule_and_its_inputs_are_shared(session: Session) -> None:
    expected = {
        Mode.UNRESTRICTED: [(1, 3), (1, 5), (1, 6), (2, 3), (2, 5), (2, 6), (4, 5), (4, 6)],
        Mode.RECENT: [(2, 3), (4, 5), (4, 6)],
        Mode.PROXIMAL: [(2, 3), (4, 5)],
        Mode.CHRONICLE: [(1, 3), (2, 5), (4, 6)],
        Mode.CONTINUOUS: [(1, 3), (2, 3), (4, 5)],
        Mode.CUMULATIVE: [(2, 3), (4, 5)],  # of several the newest is shown
    }
    rules = (
        f"CREATE RULE {mode.value.lower()} ON accident CONTEXT {mode.value} DO INSERT INTO MEMORY" for mode in expected
    )
    session.execute("; ".join(rules))
    push_vector(session)
    running = session.deployment.intake.deployments.at(len(expected)).running  # type: ignore[attr-defined]
    kinds = [
        vertex.id.partition("-")[0]
        for vertex in {vertex.id: vertex for query in running.queries for vertex in query.graph}.values()
    ]
    assert (kinds.count("scan"), kinds.count("reorder"), kinds.count("detect")) == (2, 2, len(expected))
    session.drain(60)
    assert {mode: pairs(session, mode.value.lower()) for mode in expected} == expected


def test_enhanced_mode_car_4_does_not_evict_car_1(session: Session) -> None:
    session.execute("""
        CREATE RULE each_car ON accident CONTEXT RECENT (immobile BY carId) DO INSERT INTO MEMORY;
        CREATE RULE any_car ON accident CONTEXT RECENT DO INSERT INTO MEMORY;
        CREATE RULE two ON accident CONTEXT CHRONICLE (IMMOBILE KEEP 2) DO INSERT INTO MEMORY;
        CREATE RULE young ON accident CONTEXT UNRESTRICTED (immobile FOR 5 SECONDS) DO INSERT INTO MEMORY;
    """)
    session.push("immobile", [row(1, 1), row(2, 4), row(3, 4), row(4, 1)])
    session.push("slowing", [row(8, 9)])
    session.drain(60)
    assert pairs(session, "each_car") == [(1, 9), (4, 9)]
    assert [found["at"].second for found in session.results("each_car")] == [3, 4]
    assert pairs(session, "any_car") == [(1, 9)]
    assert [found["at"].second for found in session.results("two")] == [3]
    assert [found["at"].second for found in session.results("young")] == [3, 4]


def test_the_condition_is_tested_on_what_the_context_has_chosen(session: Session) -> None:
    session.execute("""
        CREATE RULE chosen ON accident CONTEXT RECENT WHEN immobile.segment = slowing.segment AND accident.carId < 9
          DO INSERT INTO MEMORY;
    """)
    session.push("immobile", [row(1, 1, segment=7), row(2, 2, segment=8)])
    session.push("slowing", [row(3, 3, segment=7), row(4, 4, segment=8)])
    session.drain(60)
    assert pairs(session, "chosen") == [(2, 4)]  # car 2 has replaced car 1 before anybody asked for segments


def test_masks_give_the_detections_of_rule_conditions_in_unrestricted_mode_and_fewer_events(session: Session) -> None:
    condition = "immobile.segment = slowing.segment AND immobile.carId > 2 AND slowing.carId <> 5"
    session.execute(f"""
        CREATE EVENT masked AS immobile SEQUENCE slowing WITHIN 10 MINUTES WHERE {condition} CONTEXT UNRESTRICTED;
        CREATE EVENT unmasked AS immobile SEQUENCE slowing WITHIN 10 MINUTES CONTEXT UNRESTRICTED;
        CREATE RULE by_mask ON masked DO INSERT INTO MEMORY;
        CREATE RULE by_condition ON accident CONTEXT UNRESTRICTED WHEN {condition} DO INSERT INTO MEMORY;
        CREATE QUERY behind AS SELECT * FROM unmasked WHERE segment = segment_1 AND carId > 2 AND carId_1 <> 5
          INTO MEMORY;
        CREATE QUERY all_pairs AS SELECT * FROM unmasked INTO MEMORY;
    """)
    session.push("immobile", [row(at, at, segment=at % 3) for at in range(12)])
    session.push("slowing", [row(at, at, segment=at % 2) for at in range(12)])
    session.drain(60)
    assert pairs(session, "by_mask") == pairs(session, "by_condition") == pairs(session, "behind") != []
    running = {query.query: query for query in session._running().queries}
    detecting = {
        name: next(vertex.id for vertex in running[name].graph if vertex.id.startswith("detect")) for name in running
    }
    made = {name: session.statistics().vertices[vertex].tuples_out for name, vertex in detecting.items()}
    assert detecting["by_mask"] == detecting["by_condition"]  # the condition has become the mask
    assert made["by_mask"] == len(session.results("by_mask")) < made["behind"] == len(session.results("all_pairs"))


def test_a_condition_of_a_rule_stays_behind_the_detection_where_the_mode_chooses(session: Session) -> None:
    session.execute("CREATE RULE late ON accident CONTEXT CHRONICLE WHEN immobile.carId > 1 DO INSERT INTO MEMORY")
    push_vector(session)
    assert "Filter carId > 1" in session.explain("EXPLAIN late")
    session.drain(60)
    assert pairs(session, "late") == [(2, 5), (4, 6)]  # car 1 had its partner, although nobody was told


def test_functions_get_detections_or_arguments_in_order_of_coupling_and_priority(session: Session) -> None:
    calls: list[Any] = []
    session.register("note", lambda *args, key: calls.append(args))
    session.register("whole", lambda found, key: calls.append((found["carId"], found["carId_1"], len(key))))
    session.execute("""
        CREATE RULE last ON accident PRIORITY 1 DEFERRED DO CALL note('last', immobile.carId);
        CREATE RULE third ON accident PRIORITY 3 DO CALL note('third', immobile.carId + 10), CALL note();
        CREATE RULE second ON accident PRIORITY 2 IMMEDIATE DO CALL whole;
        CREATE RULE first ON immobile WHEN carId = 1 DO CALL note('first', carId, at);
    """)
    session.push("immobile", [row(1, 1)])
    session.push("slowing", [row(2, 2)])
    session.drain(60)
    assert calls == [("first", 1, row(1, 1)["at"]), (1, 2, 32), ("third", 11), (), ("last", 1)]


def failed(session: Session, rule: str) -> list[dict[str, Any]]:
    """What a rule has failed to do: a second session of the checkpoint would see it as well."""
    spool = stream_spool(failed_stream(rule), session.directory)
    return [row for file in spool.files() for row in spool.read(file).to_dicts()]


def test_an_action_that_fails_is_tried_again_and_then_kept_with_its_key(session: Session) -> None:
    keys: list[str] = []

    def fragile(found: dict[str, Any], key: str) -> None:
        keys.append(key)
        if found["carId"] == 1 or keys.count(key) < 2:
            raise ValueError(f"no car {found['carId']}")

    session.register("fragile", fragile)
    session.execute("""
        CREATE RULE careful WITH (tries 2) ON immobile DO CALL fragile;
        CREATE QUERY gone AS SELECT * FROM careful.failed INTO MEMORY;
    """)
    session.push("immobile", [row(1, 2), row(2, 1)])
    deployment = session.deployment
    assert isinstance(deployment, LocalDeployment)
    while deployment.step() or not session.results("gone"):
        pass
    (lost,) = session.results("gone")
    assert lost["reason"] == "ValueError: no car 1"
    assert (lost["action"], lost["tries"], lost["detected"]) == ("CALL fragile", 2, row(2, 1)["at"])
    assert json.loads(lost["detection"])["carId"] == 1
    assert keys == [keys[0]] * 2 + [lost["key"]] * 2
    (shown,) = session.execute("SHOW RULES")
    assert isinstance(shown, Listing)
    assert (
        dict(zip(shown.columns, shown.rows[0], strict=True)).items()
        >= {"detections": 2, "called": 1, "waiting": 0, "failed": 1}.items()
    )


def test_actions_that_fail_while_a_deployment_is_drained_are_read_before_it_ends(session: Session) -> None:
    def refuse(found: dict[str, Any], key: str) -> None:
        raise ValueError("no")

    session.register("refuse", refuse)
    session.execute("""
        CREATE RULE stern WITH (tries 1) ON immobile DO CALL refuse;
        CREATE QUERY gone AS SELECT * FROM stern.failed INTO MEMORY;
    """)
    session.push("immobile", [row(at, at) for at in range(5)])
    session.drain(60)
    assert [lost["reason"] for lost in session.results("gone")] == ["ValueError: no"] * 5


def test_a_drain_ends_if_queries_read_what_failed_and_what_was_shed(session: Session) -> None:
    def refuse(detection: dict[str, Any], key: str) -> None:
        raise ValueError("no")

    session.register("refuse", refuse)
    session.execute(
        """CREATE EVENT counted (n BIGINT);
        CREATE RULE r WITH (tries 1) ON immobile DO CALL refuse;
        CREATE RULE s WITH (tries 1) ON headrace.shed DO RAISE EVENT counted(dropped), CALL refuse;
        CREATE QUERY q WITH (error 0.5, shed LARGEST carId) AS SELECT carId FROM immobile INTO MEMORY;
        ALTER QUERY q SET shedding = 0.5;
        CREATE QUERY shed AS SELECT dropped FROM headrace.shed INTO MEMORY;
        CREATE QUERY counts AS SELECT n FROM counted INTO MEMORY;
        CREATE QUERY lost AS SELECT reason FROM r.failed INTO MEMORY;
        CREATE QUERY lost_of_shed AS SELECT reason FROM s.failed INTO MEMORY"""
    )
    session.push("immobile", [row(second, second) for second in range(20)])
    session.drain(20)
    assert len(session.results("lost")) == 20
    assert sum(found["dropped"] for found in session.results("shed")) == 20 - len(session.results("q")) > 0
    assert len(session.results("counts")) == len(session.results("shed"))


def test_a_call_that_hangs_is_given_up_and_does_not_stop_the_pipeline(session: Session) -> None:
    release = threading.Event()
    session.register("slow", lambda found, key: release.wait(60))
    session.execute("CREATE RULE patient WITH (timeout '20 ms', tries 1) ON immobile DO CALL slow, INSERT INTO MEMORY")
    session.push("immobile", [row(at, at) for at in range(6)])
    session.drain(60)
    release.set()
    assert len(session.results("patient")) == 6
    reasons = [lost["reason"] for lost in failed(session, "patient")]
    assert reasons == ["no answer within 0.02 s"] * 4 + ["4 earlier calls have not come back"] * 2


class Server(http.server.BaseHTTPRequestHandler):
    requests: list[tuple[str, dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.headers["Idempotency-Key"], body))
        car = body["detection"]["carId"]
        self.send_response({1: 500, 2: 302}.get(car, 204))
        if car == 2:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.requests.append(("GET", {}))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_webhook_gets_json_with_the_key_of_the_call(session: Session) -> None:
    Server.requests = []
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/police"
        session.execute(f"CREATE RULE tell WITH (tries 1) ON immobile DO CALL webhook('{url}')")
        session.push("immobile", [row(1.5, 7), row(2, 1), row(3, 2)])
        session.drain(60)
        server.shutdown()
        thread.join()
    (key, body), (other, _), (third, _) = Server.requests  # the redirection was not followed
    assert len({key, other, third}) == 3
    assert body == {
        "rule": "tell",
        "key": key,
        "detected": "2026-01-01 00:00:01.500000",
        "detection": {"at": "2026-01-01 00:00:01.500000", "carId": 7, "segment": 1},
    }
    assert [(lost["key"], lost["reason"]) for lost in failed(session, "tell")] == [
        (other, "HTTP 500 Internal Server Error"),
        (third, "HTTP 302 Found"),
    ]


def test_keys_do_not_depend_on_micro_batches_and_equal_detections_have_their_own() -> None:
    found = []
    for limit in (1, 100):
        keys: dict[str, list[str]] = {"noted": [], "paired": []}
        with Session(host="local", limit=limit, buckets=1 + limit % 3) as session:
            session.register("note", lambda rule, key, keys=keys: keys[rule].append(key))
            session.execute(STREAMS)
            session.execute("""
                CREATE RULE noted ON immobile DO CALL note('noted');
                CREATE RULE paired ON accident CONTEXT UNRESTRICTED DO CALL note('paired');
            """)
            session.push("immobile", [row(1, 1), row(1, 1), row(2, 2)])
            session.push("slowing", [row(3, 3), row(4, 3)])
            session.drain(60)
        assert len(set(keys["noted"])) == 3
        assert len(set(keys["paired"])) == 6
        found.append({rule: sorted(each) for rule, each in keys.items()})
    assert found[0] == found[1]


def test_calls_that_were_not_made_are_made_by_the_next_session_with_the_same_keys(tmp_path: Path) -> None:
    first: list[str] = []
    second: list[str] = []
    began, release = threading.Event(), threading.Event()

    def hang(found: dict[str, Any], key: str) -> None:
        first.append(key)
        began.set()
        release.wait(60)

    session = Session(tmp_path, host="local")
    session.register("note", hang)
    session.execute(STREAMS + "CREATE RULE noted WITH (timeout '1 minute') ON immobile DO CALL note")
    session.push("immobile", [row(1, 1), row(2, 2)])
    outbox = session.deployment.delivery.reactions.outbox
    stepping = threading.Thread(target=session.deployment.step)  # type: ignore[attr-defined]
    stepping.start()
    assert began.wait(60)
    outbox._closing.set()  # as if the process ended here: the first call is under way, the second not begun
    release.set()
    stepping.join()
    session.stop()
    assert len(first) == 1
    with Session(tmp_path, host="local") as again:
        again.register("note", lambda found, key: second.append(key))
        again.start()
        assert again.deployment.delivery.reactions.outbox.settle(60)
    assert second[0] == first[0]
    assert len(set(second)) == 2


def test_rules_are_disabled_enabled_replaced_and_dropped_while_they_run(session: Session) -> None:
    deployment = session.deployment
    assert isinstance(deployment, LocalDeployment)
    session.execute(
        "CREATE RULE seen ON accident DO INSERT INTO MEMORY; "
        "CREATE QUERY all_cars AS SELECT * FROM accident INTO MEMORY"
    )

    def happen(at: int) -> None:
        """An accident of the car that is named after its time; then the clocks of both streams go on."""
        session.push("immobile", [row(at, at), row(at + 0.5, 0)])
        session.push("slowing", [row(at + 0.2, at), row(at + 0.5, 0)])
        while deployment.step():
            pass

    def cars(rule: str = "seen") -> list[int]:
        return [found["carId"] for found in session.results(rule) if found["carId"] and found["carId_1"]]

    happen(1)
    assert session.execute("DISABLE RULE seen") == [Message("rule seen disabled")]
    happen(2)
    assert session.execute("ENABLE RULE seen") == [Message("rule seen enabled")]
    happen(3)
    assert cars() == [1, 3]
    assert session.statistics().rules["seen"].ignored > 0
    session.execute("CREATE OR REPLACE RULE seen ON accident WHEN immobile.carId <> 4 DO INSERT INTO MEMORY")
    happen(4)
    happen(5)
    assert cars() == [1, 3, 5]
    assert session.execute("DROP RULE seen") == [Message("rule seen dropped")]
    happen(6)
    assert cars("all_cars") == [1, 2, 3, 4, 5, 6]
    (listed,) = session.execute("SHOW RULES")
    assert isinstance(listed, Listing)
    assert listed.rows == ()
    assert [query.query for query in session._running().queries] == ["all_cars"]


def test_a_rule_survives_the_session_that_created_it_and_stays_as_it_was_switched(tmp_path: Path) -> None:
    rule = (
        "CREATE RULE seen ON accident CONTEXT CHRONICLE PRIORITY 2 DEFERRED WHEN immobile.carId > 0 DO INSERT "
        "INTO MEMORY"
    )
    with Session(tmp_path, host="local") as session:
        session.execute(STREAMS + rule + "; DISABLE RULE seen")
    with Session(tmp_path, host="local") as session:
        assert session.execute(rule) == [Message("rule seen already exists")]
        (listed,) = session.execute("SHOW RULES")
        assert isinstance(listed, Listing)
        assert listed.rows[0][:5] == ("seen", "accident", "CHRONICLE", "deferred 2", "disabled")
        (told,) = session.execute("DESCRIBE seen")
        assert isinstance(told, Listing)
        said = dict(told.rows)
        assert said["WHEN"] == "immobile.carId > 0"
        assert said["DO"] == "INSERT INTO MEMORY"
        assert (said["PRIORITY"], said["STATE"]) == ("2 DEFERRED", "disabled")


def test_what_a_rule_needs_cannot_be_dropped(session: Session) -> None:
    session.execute("""
        CREATE EVENT alarm (car INT);
        CREATE SINK kept INTO MEMORY;
        CREATE RULE seen ON accident DO RAISE EVENT alarm(immobile.carId), INSERT INTO kept;
    """)
    for statement, name in (
        ("DROP EVENT accident", "accident"),
        ("DROP EVENT alarm", "alarm"),
        ("DROP SINK kept", "kept"),
    ):
        with pytest.raises(NameFault, match=f"'{name}' cannot be dropped: it is used by seen") as caught:
            session.execute(statement)
        assert caught.value.hint == "first DROP RULE seen"
    session.execute("CREATE RULE worry ON seen.failed DO INSERT INTO MEMORY")
    with pytest.raises(NameFault, match="'seen' cannot be dropped: it is used by worry"):
        session.execute("DROP RULE seen")
    session.execute("DROP RULE worry")
    with pytest.raises(NameFault, match="'seen' is already a rule"):
        session.execute("CREATE QUERY seen AS SELECT * FROM accident INTO MEMORY")
    session.execute(
        "CREATE QUERY q AS SELECT * FROM slowing INTO MEMORY; CREATE RULE turn ON accident DO START QUERY q"
    )
    with pytest.raises(NameFault, match="'q' cannot be dropped: it is used by turn"):
        session.execute("DROP QUERY q")
    session.execute(
        "DROP RULE turn; DROP QUERY q; DROP RULE seen; DROP EVENT alarm; DROP SINK kept; DROP RULE IF EXISTS seen; "
        "DROP EVENT accident"
    )
    assert session.catalog.names() == ["immobile", "slowing"]


def test_each_rule_has_a_part_of_its_own_in_a_named_sink(session: Session, tmp_path: Path) -> None:
    session.execute(f"""
        CREATE SINK alarms INTO FILES (path '{tmp_path}/alarms', format 'parquet');
        CREATE RULE odd ON immobile WHEN carId % 2 = 1 DO INSERT INTO alarms;
        CREATE RULE even ON immobile WHEN carId % 2 = 0 DO INSERT INTO alarms;
    """)
    session.push("immobile", [row(at, at) for at in range(5)])
    session.drain(60)
    found = pl.read_parquet(tmp_path / "alarms", hive_partitioning=True)
    assert sorted(found.select("rule", "carId").rows()) == [
        ("even", 0),
        ("even", 2),
        ("even", 4),
        ("odd", 1),
        ("odd", 3),
    ]


def test_raised_events_feed_queries_events_and_other_rules(session: Session) -> None:
    session.execute("""
        CREATE EVENT alarm (segment INT, car INT);
        CREATE EVENT escalation (segment INT);
        CREATE EVENT twice AS TIMES (2, alarm);
        CREATE RULE one ON immobile DO RAISE EVENT alarm(segment, carId);
        CREATE RULE two ON twice DO RAISE EVENT escalation(segment);
        CREATE QUERY alarms AS SELECT segment, count(*) AS n FROM alarm [RANGE 1 HOUR] GROUP BY segment INTO MEMORY;
        CREATE QUERY escalations AS SELECT segment, cascade FROM escalation INTO MEMORY;
    """)
    session.push("immobile", [row(at, at, segment=3) for at in range(4)])
    session.drain(60)
    assert sum(found["n"] for found in session.results("alarms")) == 4
    assert session.results("escalations") == [{"segment": 3, "cascade": 2}] * 3  # RECENT slides
    (shown,) = session.execute("SHOW EVENTS")
    assert isinstance(shown, Listing)
    assert ("alarm", "raised by rules: segment, car, cascade") in shown.rows


def test_a_runaway_cascade_ends_at_its_limit_and_says_so(session: Session) -> None:
    session.execute("""
        CREATE EVENT echo (car INT);
        CREATE RULE shout ON immobile DO RAISE EVENT echo(carId);
        CREATE RULE answer WITH (cascade 5) ON echo DO RAISE EVENT echo(car);
        CREATE QUERY heard AS SELECT car, cascade FROM echo INTO MEMORY;
    """)
    session.push("immobile", [row(1, 7)])
    session.drain(60)
    assert session.results("heard") == [{"car": 7, "cascade": depth} for depth in range(1, 6)]
    (lost,) = failed(session, "answer")
    assert lost["reason"] == "6 rules in a row led to this, and 5 is the limit"
    assert session.statistics().rules["answer"].failed == 1


def test_a_rule_starts_and_stops_queries(session: Session) -> None:
    deployment = session.deployment
    assert isinstance(deployment, LocalDeployment)
    session.execute("""
        CREATE STREAM cars (n INT) FROM MEMORY;
        CREATE QUERY detour AS SELECT n FROM cars INTO MEMORY;
        STOP QUERY detour;
        CREATE RULE begin ON immobile WHEN carId > 0 DO START QUERY detour;
        CREATE RULE finish ON immobile WHEN carId < 0 DO STOP QUERY detour;
    """)

    def pass_by(*cars: int) -> None:
        for n in cars:
            session.push("cars", [{"n": n}])
        while deployment.step():
            pass

    def see(at: int, car: int) -> None:
        session.push("immobile", [row(at, car)])
        while deployment.step():
            pass

    pass_by(1)
    see(1, 1)
    see(2, 2)  # it is on already
    pass_by(2, 3)
    see(3, -1)
    pass_by(4)
    see(4, 5)
    pass_by(5)
    session.drain(60)
    assert [found["n"] for found in session.results("detour") if found["n"] not in (1, 4)] == [2, 3, 5]
    assert session.statistics().rules["begin"].detections == 3


def test_hours_strike_although_no_stream_says_anything(tmp_path: Path) -> None:
    clock = VirtualClock(1_767_225_000_000_000)  # 23:50
    with Session(tmp_path, host="local") as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = clock
        session.execute("""
            CREATE STREAM signals (n INT) FROM MEMORY;
            CREATE EVENT hour AS AT '*:00:00';
            CREATE EVENT unanswered AS NOT (signals) [AT '*:00:00' AS struck, '5 minutes'];
            CREATE RULE strike ON hour DO INSERT INTO MEMORY;
            CREATE RULE worry ON unanswered DO INSERT INTO MEMORY;
        """)
        for minute in range(180):
            clock.advance(60_000_000)
            if minute == 72:  # 01:03
                session.push("signals", [{"n": 1}])
            while deployment.step():
                pass
        hours = [found["at"].strftime("%H:%M:%S") for found in session.results("strike")]
        assert hours == ["00:00:00", "01:00:00", "02:00:00"]
        assert [found["at"].hour for found in session.results("worry")] == [0, 2]


def test_a_clock_can_begin_in_the_past() -> None:
    with Session(host="local", limit=7) as session:
        session.execute("""
            CREATE STREAM ticks (at TIMESTAMP) TIMESTAMP BY at
              FROM CLOCK (at '2026-01-* 06:*/20:00', start '2026-01-30');
            CREATE QUERY q AS SELECT at FROM ticks INTO MEMORY;
        """)
        session.drain(60)
        seen = [found["at"].strftime("%d %H:%M") for found in session.results("q")]
    assert seen == ["30 06:00", "30 06:20", "30 06:40", "31 06:00", "31 06:20", "31 06:40"]


def test_contexts_that_nothing_bounds_are_named(session: Session) -> None:
    open_ended = "CREATE EVENT open_ended AS immobile SEQUENCE slowing CONTEXT CONTINUOUS"
    (told,) = session.execute(open_ended)
    warning = "CONTEXT CONTINUOUS keeps every occurrence of immobile until it is used; add WITHIN, KEEP or AGE"
    assert told == Message(f"event open_ended created\nwarning: {warning}")
    (shown,) = session.execute("DESCRIBE open_ended")
    assert isinstance(shown, Listing)
    assert shown.rows[-1] == ("warning", warning)
    assert session.explain("EXPLAIN open_ended").endswith(f"warning: {warning}")
    (told,) = session.execute(
        "CREATE RULE per_car ON open_ended CONTEXT RECENT (immobile BY carId) DO INSERT INTO MEMORY"
    )
    assert told == Message(
        "rule per_car created\nwarning: immobile is kept for every value of carId, however old; add WITHIN or AGE"
    )
    for bounded in ("RECENT", "RECENT (immobile BY carId FOR 1 MINUTE)", "CONTINUOUS (immobile KEEP 3)"):
        (told,) = session.execute(
            f"CREATE OR REPLACE RULE bounded ON open_ended CONTEXT {bounded} DO INSERT INTO MEMORY"
        )
        assert told == Message("rule bounded created")
    (told,) = session.execute("CREATE RULE within_limits ON accident CONTEXT CONTINUOUS DO INSERT INTO MEMORY")
    assert told == Message("rule within_limits created")


@pytest.mark.parametrize(
    ("context", "most"),
    [
        ("RECENT", 1),
        ("PROXIMAL", 1),
        ("RECENT (immobile BY carId)", 3),
        ("CHRONICLE (immobile KEEP 4)", 4),
        ("UNRESTRICTED (immobile FOR 5 SECONDS)", 6),
    ],
)
def test_what_is_kept_stays_bounded_where_the_context_bounds_it(context: str, most: int) -> None:
    held = []
    with Session(host="local", limit=10) as session:
        session.execute(STREAMS.replace(" WITHIN 10 MINUTES", ""))
        session.execute(
            f"CREATE RULE bounded ON accident CONTEXT {context} WHEN slowing.carId < 0 DO INSERT INTO MEMORY"
        )
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        (detecting,) = [vertex.id for vertex in session._running().queries[0].graph if vertex.id.startswith("detect")]
        for start in range(0, 200, 10):
            session.push("immobile", [row(at, at % 3) for at in range(start, start + 10)])
            session.push("slowing", [row(start + 10, 1)])
            while deployment.step():
                pass
            held.append(session.statistics().vertices[detecting].held)
    # beside what waits for a partner, what waits for the other stream's clock
    assert max(held) <= most + 1
    assert len(held) == 20


def test_a_rule_is_read_with_all_its_clauses() -> None:
    (rule,) = parse("""
        CREATE OR REPLACE RULE IF NOT EXISTS r WITH (timeout '2 s', tries 5) ON e
        CONTEXT RECENT POINT (a BY (x, y) KEEP 2 FOR 5 MINUTES)
        PRIORITY 4 DEFERRED WHEN a.x > 3 AND b.y IN (1, 2)
        DO INSERT INTO FILES (path 'out'), CALL PYTHON 'm.n:f' (a.x, b.y + 1), CALL f, CALL webhook('http://h/p'),
          START QUERY q, RAISE EVENT z()
    """)
    assert isinstance(rule, CreateRule)
    assert (rule.name.text, rule.event.text, rule.priority, rule.deferred, rule.options) == (
        "r",
        "e",
        4,
        True,
        {"timeout": "2 s", "tries": 5},
    )
    assert rule.action_texts[1] == "CALL PYTHON 'm.n:f' (a.x, b.y + 1)"
    assert [type(action).__name__ for action in rule.actions] == [
        "InsertClause", "CallClause", "CallClause", "WebhookClause", "TurnClause", "RaiseClause",
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize("cars", [(1, -1), (-1, 1), (1, -1, 1), (-1, 1, -1), (1, 1, -1, -1, 1)])
def test_rules_that_turn_a_query_on_and_off_agree_however_micro_batches_are_cut(
    tmp_path: Path, limit: int, cars: tuple[int, ...]
) -> None:
    with Session(tmp_path, host="local", limit=limit) as session:
        session.execute(
            f"""{STREAMS}
            CREATE QUERY detour AS SELECT carId FROM slowing INTO MEMORY;
            CREATE RULE finish ON immobile PRIORITY 1 WHEN carId < 0 DO STOP QUERY detour;
            CREATE RULE begin ON immobile PRIORITY 2 WHEN carId > 0 DO START QUERY detour"""
        )
        session.push("immobile", [row(second, car) for second, car in enumerate(cars)])
        assert isinstance(session.deployment, LocalDeployment)
        while session.deployment.step():
            pass
        (listing,) = session.execute("SHOW QUERIES")
        assert isinstance(listing, Listing)
        states = {shown[0]: shown[-1] for shown in listing.rows}
        assert states["detour"] == ("on" if cars[-1] > 0 else "off")


@pytest.mark.parametrize("waits", [True, False])
def test_a_rule_of_a_cycle_that_waits_for_its_own_event_is_late_and_says_so(waits: bool) -> None:
    event = "TIMES (1, again)" if waits else "SELECT k, cascade FROM again"
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY; CREATE EVENT again (k INT); "
            f"CREATE EVENT once AS {event}; CREATE QUERY seen AS SELECT k FROM again INTO MEMORY; "
            "CREATE QUERY late AS SELECT k FROM again.late INTO MEMORY; "
            "CREATE RULE begin ON s DO RAISE EVENT again(s.k)"
        )
        (said,) = session.execute("CREATE RULE go_on ON once WHEN once.k < 4 DO RAISE EVENT again(once.k + 1)")
        assert isinstance(said, Message)
        assert ("is late, and goes to again.late" in said.text) == waits
        session.push("s", [{"at": NEW_YEAR, "k": 1}])
        session.start()
        assert isinstance(session.deployment, LocalDeployment)
        while session.deployment.step():
            pass
        session.push("s", [{"at": NEW_YEAR + datetime.timedelta(seconds=9), "k": 9}])
        session.drain(60)
        found = {query: sorted(row["k"] for row in session.results(query)) for query in ("seen", "late")}
        assert found == ({"seen": [1, 9], "late": [2]} if waits else {"seen": [1, 2, 3, 4, 9], "late": []})
