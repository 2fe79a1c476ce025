"""All applications by name."""

from __future__ import annotations

from headrace.applications.application import Application
from headrace.applications.car_adn.application import CarAdn
from headrace.applications.nfmi.application import Nfmi
from headrace.applications.rfid.application import Rfid

APPLICATIONS: tuple[Application, ...] = (CarAdn(), Nfmi(), Rfid())
