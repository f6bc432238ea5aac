"""What the self-test says of PDUs, on recordings that a real SNMP agent serves."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from pdu_reading import login

from offpeak.machines.inventory import Pdu
from offpeak.power.check.devices import check_pdu
from offpeak.power.check.findings import CheckVerdict
from offpeak.power.drivers.transport import Transport


@pytest.mark.parametrize(
    ("recording", "verdict", "reply", "hint"),
    [
        ("vertiv_aggregated", CheckVerdict.GOOD, "1,517 W, 3 outlets metered", ""),
        (
            "vertiv_phases",
            CheckVerdict.DOUBTFUL,
            "total 3,626 W: added up from its 3 phases: the PDU has no total of its own",
            "display",
        ),
        (
            "vertiv_missing_phase",
            CheckVerdict.DOUBTFUL,
            "total: the PDU has no total of its own; phase 2: the PDU has no such meter",
            "docs/how-to/pdus.md",
        ),
        (
            "sentry3_amperes",
            CheckVerdict.DOUBTFUL,
            "total: the PDU has none of the numbers from which family sentry3 reads watts",
            "docs/how-to/pdus.md",
        ),
    ],
)
def test_a_pdu_is_reported_with_its_watts_or_what_it_lacks(
    recorded: tuple[Sequence[str], int], tmp_path: Path, recording: str, verdict: CheckVerdict, reply: str, hint: str
) -> None:
    (host, *_), port = recorded
    pdu = Pdu("rack1", host, "auto", login(tmp_path, recording), port)
    (finding,) = asyncio.run(check_pdu(pdu, Transport(timeout_s=20.0)))
    assert (finding.verdict, finding.message) == (verdict, reply)
    assert hint in finding.hint
