"""The applications on Spark: what they find is what was planted."""

import pytest

from headrace.applications.application import run
from headrace.applications.car_adn.application import CarAdn
from headrace.applications.nfmi import desk
from headrace.applications.nfmi.application import Nfmi
from headrace.applications.rfid.application import Rfid
from headrace.applications.smart_home.application import SmartHome
from headrace.session import Session


@pytest.mark.parametrize(
    "application",
    [CarAdn(accidents=2, cars=3), Nfmi(repeat=20), Rfid(cases=10), SmartHome(homes=2, days=2)],
    ids=lambda application: application.name,
)
def test_an_application_finds_what_was_planted(spark, tmp_path, monkeypatch, application):
    monkeypatch.delenv(desk.PLACE, raising=False)
    with Session(tmp_path / "state", buckets=2) as session:
        results = run(application, session, tmp_path / "here", 1, timeout=250)
    checks = application.checks(1, tmp_path / "here", results)
    assert [check for check in checks if not check.holds] == []
