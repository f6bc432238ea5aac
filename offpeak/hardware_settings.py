"""The settings of machines: where the inventory is, and how long a device may take to answer."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.setting_kinds import DURATION, PATH
from offpeak.setting_row import row


@dataclass(frozen=True)
class HardwareSettings:
    """Which machines there are, and how patient to be with them."""

    inventory: Path = row(
        PATH,
        "--inventory",
        "TOML file of nodes, BMCs, PDUs and logins.",
        default="/etc/offpeak/inventory.toml",
    )
    timeout_s: int = row(
        DURATION,
        "--device-timeout",
        "A BMC, PDU or node that has not answered for so long counts as silent.",
        default="5s",
        unit="per answer",
    )
