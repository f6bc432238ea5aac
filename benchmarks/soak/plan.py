"""What a soak is of: how many devices, how many sweeps over them, and where they listen."""

import os
from dataclasses import dataclass

BMC_PORT, PDU_PORT = 9723, 9761


def own_network() -> str:
    """Return "127.x.y", a network of loopback that goes with the number of this process."""
    return f"127.{64 + (os.getpid() >> 8) % 128}.{os.getpid() & 255}"


@dataclass(frozen=True)
class SoakPlan:
    """Node n1 hangs on outlet 1 of p1, n2 on that of p2, and so on; when every PDU has one, on outlet 2 of p1.

    Between two sweeps `step_s` pass in the room, whatever they take outside; while one lasts, the room's time stands
    still. Every thing that is asked of a device is bounded by `timeout_s`.
    """

    network: str
    bmcs: int = 64
    pdus: int = 50
    sweeps: int = 360
    step_s: float = 10.0
    timeout_s: float = 1.0
    frozen_s: float = 3.0
    seed: int = 1

    @property
    def bmc_hosts(self) -> dict[str, str]:
        """The addresses of the BMCs by node."""
        return {f"n{number}": f"{self.network}.{number}" for number in range(1, self.bmcs + 1)}

    @property
    def pdu_hosts(self) -> dict[str, str]:
        """The addresses of the PDUs by name."""
        return {f"p{number}": f"{self.network}.{128 + number}" for number in range(1, self.pdus + 1)}

    @property
    def outlets(self) -> dict[str, dict[int, str]]:
        """By PDU which node hangs on which outlet, "" for none; the last outlet of each is free."""
        rows = -(-self.bmcs // self.pdus) + 1
        return {f"p{pdu}": {row: self._node(pdu, row) for row in range(1, rows + 1)} for pdu in range(1, self.pdus + 1)}

    def _node(self, pdu: int, row: int) -> str:
        number = pdu + (row - 1) * self.pdus
        return f"n{number}" if number <= self.bmcs else ""
