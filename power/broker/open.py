"""Puts a broker together from the settings: its federation, the ways to its sites, the ledger and the door."""

import time
from pathlib import Path

from offpeak.door.door import Door
from offpeak.door.effect import Mode
from offpeak.ledger.ledger import Ledger
from offpeak.settings.broker import BrokerSettings
from power.broker.at_site import at_site
from power.broker.federation import Federation
from power.broker.submit import Broker


def broker_of(
    settings: BrokerSettings, federation: Federation, ledger: Ledger, *, by: str, agent_socket: Path
) -> Broker:
    """Return a broker that acts for `by`, as far as the mode lets it; the socket is that of this machine's agent."""
    sites = {
        site.name: at_site(site, agent_socket=agent_socket) for site in federation.grid.sites if site.reach is not None
    }
    door = Door(lambda _: Mode(settings.mode), journal=ledger, clock=time.time)
    return Broker(federation, sites, ledger, door, by)
