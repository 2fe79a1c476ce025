"""All applications by name."""

from __future__ import annotations

from headrace.applications.application import Application
from headrace.applications.car_adn.application import CarAdn
from headrace.applications.nfmi.application import Nfmi
from headrace.applications.rfid.application import Rfid
from headrace.applications.smart_home.application import SmartHome

APPLICATIONS: tuple[Application, ...] = (CarAdn(), Nfmi(), Rfid(), SmartHome())
