"""Rules that act on the outside, turn queries on and off, and go by the clock, on Spark."""

import http.server
import json
import threading

from headrace.session import Session
from headrace.testing.watching import until

SCRIPT = """
CREATE STREAM immobile (carId INT) FROM MEMORY;
CREATE STREAM cars (n INT) FROM MEMORY;
CREATE QUERY detour AS SELECT n FROM cars INTO MEMORY;
STOP QUERY detour;
CREATE EVENT tick AS AT '*:*:*';
CREATE EVENT alarm (n INT);
CREATE QUERY alarms AS SELECT n, cascade FROM alarm INTO MEMORY;
CREATE STREAM made (n BIGINT) FROM GENERATOR (rate 200, process 'constant', col.n 'sequence');
CREATE QUERY all_made AS SELECT n FROM made INTO MEMORY;
CREATE QUERY ticks AS SELECT * FROM tick INTO MEMORY;
CREATE RULE begin ON immobile WHEN carId > 0 DO START QUERY detour, CALL webhook('{url}');
CREATE RULE finish ON immobile WHEN carId < 0 DO STOP QUERY detour;
"""


class Police(http.server.BaseHTTPRequestHandler):
    told: list = []

    def do_POST(self):
        Police.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Nothing: the test looks at what was told."""


def state(session):
    (shown,) = session.execute("SHOW QUERIES")
    return {row[0]: row[-1] for row in shown.rows}["detour"]


def test_a_rule_turns_a_query_on_and_off_and_tells_a_webhook_while_the_clock_strikes(spark, tmp_path):
    Police.told = []
    with http.server.HTTPServer(("127.0.0.1", 0), Police) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with Session(tmp_path) as session:
            session.execute(SCRIPT.format(url=f"http://127.0.0.1:{server.server_port}/police"))
            until(lambda: session.results("all_made"), session=session)
            session.execute("ALTER STREAM made PAUSE")
            off = state(session)
            session.push("immobile", [{"carId": 7}])
            until(lambda: state(session) != off, session=session)
            session.push("cars", [{"n": 2}])
            until(lambda: session.results("detour") == [{"n": 2}], session=session)
            until(lambda: Police.told and len(session.results("ticks")) > 1, session=session)
            made = len(session.results("all_made"))
            session.execute("ALTER STREAM made SET rate = 50; ALTER STREAM made RESUME; RAISE EVENT alarm(3)")
            until(lambda: session.results("alarms") == [{"n": 3, "cascade": 0}], session=session)
            until(lambda: len(session.results("all_made")) > made, session=session)
            session.push("immobile", [{"carId": -1}])
            until(lambda: state(session) == off, session=session)
            numbers = [row["n"] for row in session.results("all_made")]
        server.shutdown()
        thread.join()
    assert sorted(numbers) == list(range(len(numbers))), "nothing is lost or made twice"
    assert [(each["rule"], each["detection"]["carId"]) for each in Police.told] == [("begin", 7)]
