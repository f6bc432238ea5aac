"""Recordings of real PDUs: their watts and kilowatt-hours, worked out by hand from the MIB and the recording."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pdu_reading import Expected, Reply, compare, read_recorded

EXPECTED = {
    "apc-8641": Expected(
        1210,
        1951.6,
        {"phase 1": 1220, "outlet 1": 163, "outlet 2": 4},
        {"outlet 1": 304.6},
        resolution_w=10,
    ),
    "apc_ap7900b": Expected(312, None, none=("phase 1",)),
    "apc_ap8853": Expected(1140, 3512.8, {"phase 1": 1140}, resolution_w=10),
    # The recording is of a UPS of that maker.
    "cyberpower": Expected(None, None),
    "dell-rpdu": Expected(3790, 63013.9, {"phase 1": 3810, "outlet 3": 352}, resolution_w=10),
    "eatonpdu_2": Expected(1584, 8185.493, {"phase 1.1": 1589, "outlet 2": 142}, {"outlet 2": 385.352}),
    "enlogic-pdu_v2": Expected(1120, 52777.6, {"phase 1": 521, "phase 2": 599, "phase 3": 0}),
    "hpe-mapdu_pdu2": Expected(97, None, {"phase 1": 97, "outlet 6": 77, "outlet 7": 14}),
    "raritan-pdu": Expected(580, 0),
    "raritan-pdu_px2": Expected(138, None, {"outlet 3": 68, "outlet 10": 35}),
    "raritan-pdu_px3": Expected(1665, 74057.676, {"outlet 1": 143}, {"outlet 1": 5812.658}),
    "rittal-cmc-iii-pu_pdu-controller": Expected(2742, 2641.8, {"phase 2.L1": 1041}, {"phase 2.L1": 999.1}),
    # Volts, amperes and kilowatt-hours, but no watts.
    "schleifenbauer_dpm27e": Expected(
        None,
        0,
        parts_kwh={"outlet 4": 532, "outlet 5": 402},
        none=(*(f"phase {number}" for number in range(1, 4)), *(f"outlet {number}" for number in range(1, 13))),
    ),
    # Amperes only.
    "sentry3": Expected(None, None),
    "sentry3_3phase": Expected(279, None, {"phase AA": 147, "phase AB": 53, "phase AC": 78}, none=("phase AD",)),
    # Recordings of a name and nothing else.
    "sentry4_smart": Expected(None, None),
    "vertiv-pdu_imd5": Expected(None, None),
}


@pytest.fixture(scope="module")
def reply(real: tuple[Sequence[str], int], tmp_path_factory: pytest.TempPathFactory) -> Reply:
    return read_recorded(list(EXPECTED), real, tmp_path_factory.mktemp("logins"))


@pytest.mark.parametrize("name", EXPECTED)
def test_says_what_its_recording_says(name: str, reply: Reply) -> None:
    compare(reply[name], EXPECTED[name])


def test_every_recording_is_read(shared: Path) -> None:
    assert {file.stem for file in (shared / "data" / "snmprec").glob("*.snmprec")} == set(EXPECTED)
