"""Every family on a recording of ours that holds its traps: what adds up, what must not, units, signs for none."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pdu_reading import Expected, Reply, compare, read_recorded

from offpeak.power.meters.snmp.family import bundled_names

# By hand from the MIB and the recording.
EXPECTED = {
    # 10 W a step: 121 + 95; the old number is of one unit only.
    "apc_chain": Expected(
        2160,
        2052.0,
        {"phase 1": 400, "phase 2": 420, "phase 2.1": 950, "outlet 1": 401, "outlet 3": 399, "outlet 2.1": 480},
        {"outlet 1": 650, "outlet 2.2": 50.4},
        resolution_w=10,
    ),
    "apc_old": Expected(192, None, none=("phase 1",)),
    # 1200 + 512.5 + 300: the second inlet is told in tenths, and so is its counter.
    "raritan_linked": Expected(
        2012.5,
        5000 + 2500.0005 + 100,
        {"phase 1.2": 410, "outlet 1": 700, "outlet 2.1": 301},
        {"outlet 2": 2000},
        none=("outlet 3",),
    ),
    "raritan_px1": Expected(580, 1234.567, {"outlet 1": 400, "outlet 2": 178}, {"outlet 1": 1000}),
    "raritan_px1_before": Expected(575, None),
    "eaton_chain": Expected(
        2100,
        8285.5,
        {"phase 1.1": 500, "phase 1.1.1": 600, "outlet 1": 800, "outlet 1.1": 590},
        {"outlet 2": 4100},
        none=("outlet 1.2",),
    ),
    # 500 + 510 + 490, not their total of 1500 again.
    "eaton_phases": Expected(1500, 8185.493, {"phase 1.3": 490}),
    "eaton_legacy": Expected(905, None, {"outlet 1": 500}),
    "sentry3_infeeds": Expected(
        278, 550.6, {"phase AA": 147, "outlet AA1": 140}, {"outlet AA1": 250}, none=("phase AD", "outlet AC1")
    ),
    "sentry3_amperes": Expected(None, None),
    "sentry4_cords": Expected(
        3266, 17100.6, {"phase AA2": 570, "phase BA1": 300, "outlet AB1": 1260}, {"outlet AA1": 4500}
    ),
    "vertiv_aggregated": Expected(1517, 9484.0, {"phase 2": 499, "outlet 3": 495}, {"outlet 1": 5000}),
    # 1207 + 1223 + 1196: the only places where it tells its power and energy.
    "vertiv_phases": Expected(
        3626,
        15306.0,
        {"phase 2": 1223},
        {"phase 1": 5101},
        why="added up from its 3 phases: the PDU has no total of its own",
    ),
    "vertiv_missing_phase": Expected(
        None, None, {"phase 1": 1207}, none=("phase 2",), why="no total of its own; phase 2: the PDU has no such meter"
    ),
    "vertiv_zero_total": Expected(3626, None, why="doubtful: 0 W in all, but its phases add up to 3626 W"),
    "schleifenbauer_bus": Expected(1570, 159, {"phase 3": 490, "phase 2.1": 70, "outlet 2.1": 68}, {"outlet 1": 50}),
    # The bank rows, 119 and 100 W, are the same again.
    "cyberpower_banks": Expected(219, 456.7, {"phase 1": 219, "outlet 1": 119}, {"outlet 2": 256.7}),
    "cyberpower2_chain": Expected(1000, 1050.1, {"phase 2": 361, "outlet 2.1": 359}, {"outlet 1": 600}),
    "enlogic_chain": Expected(1420, 52877.6, {"phase 2": 599, "phase 2.1": 300, "outlet 2.1": 299}),
    # 2742 W and 1.25 kW; 2641.8 and 550 kWh.
    "rittal_two_devices": Expected(
        3992,
        3191.8,
        {"phase 2.L1": 1500, "outlet 2.1": 1490},
        {"phase 2.L2": 1241.8, "outlet 2.1": 1399.9},
        resolution_w=10,
    ),
    # A neutral is no phase.
    "hpe2": Expected(
        147, 92.819, {"phase 1.1": 50, "outlet 1": 77, "outlet 1.1": 49}, {"phase 1": 91.8, "outlet 1": 70}
    ),
    "hpe3": Expected(154, None, {"phase 2": 60, "outlet 1": 80}),
    # 1240 + 655 W, the lifetime counters; rows of outlets that do not exist are none.
    "apc_apdu_chain": Expected(
        1895,
        8525.4,
        {"phase 2": 420, "phase 2.1": 655, "outlet 2": 530, "outlet 2.1": 651},
        {"outlet 1": 3000, "outlet 2.1": 401.9},
    ),
    # Thousandths of a watt. The banks say the same again.
    "aten_device": Expected(912.45, None, {"outlet 1": 500.12}, none=("outlet 2",), resolution_w=0.001),
    "aten_banks": Expected(500.75, None, resolution_w=0.001),
    "aten_outlets": Expected(
        192.75, None, {"outlet 1": 0, "outlet 2": 118.5}, resolution_w=0.001, why="added up from its 3 outlets"
    ),
    # 2110 + 640; the branches have volt-ampere-hours, which are no energy.
    "chatsworth_chain": Expected(
        2750,
        None,
        {"phase 000ED3000001.3": 668, "phase 000ED3000002.1": 640, "outlet 000ED3000002.1": 639},
        {"outlet 000ED3000001.1": 100, "outlet 000ED3000002.1": 0.001},
        why="doubtful: the MIB calls this number volt-amperes",
    ),
    "chatsworth_branches": Expected(
        1442, None, why="added up from its 2 phases: the PDU has no total of its own; doubtful: the MIB calls this"
    ),
    "chatsworth_scalars": Expected(1011, 30, {"phase 2": 410}, {"phase 1": 20}, why="added up from its 2 phases"),
    "conteg_bus": Expected(1920, 263, {"phase 2": 880, "phase 2.1": 130, "outlet 2.1": 130}, {"outlet 1": 110}),
    # 410 + 305; the third channel is not active, nor is the third port.
    "gude_banks": Expected(
        715, 3520.75, {"phase 2": 305, "outlet 2": 302}, {"phase 1": 2020.5, "outlet 1": 2020}, none=("outlet 3",)
    ),
    "liebert_array": Expected(
        2042,
        2060.0,
        {"phase 1.2": 500, "phase 2.1.1": 505, "outlet 2.1": 755, "outlet 2.1.2": 255},
        {"outlet 1.1": 1000},
    ),
    "liebert_delta": Expected(1700, None, {"phase 1.2": 570}),
    # 1085 + 400 W; the counters that can be reset are finer. The neutral is no phase.
    "panduit_chain": Expected(
        1485,
        7627.474,
        {"phase 3": 358, "phase 2.1": 400, "outlet 1": 700, "outlet 2.1": 398},
        {"phase 1": 2500, "outlet 2": 2400},
    ),
    "dell": Expected(3790, 63013.9, {"phase 1": 3810, "outlet 2": 1754}, resolution_w=10),
}


@pytest.fixture(scope="module")
def reply(recorded: tuple[Sequence[str], int], tmp_path_factory: pytest.TempPathFactory) -> Reply:
    return read_recorded(list(EXPECTED), recorded, tmp_path_factory.mktemp("logins"))


@pytest.mark.parametrize("name", EXPECTED)
def test_says_what_its_mib_says(name: str, reply: Reply) -> None:
    compare(reply[name], EXPECTED[name])


def test_every_family_is_tried(repository: Path) -> None:
    recordings = {file.stem for file in (repository / "tests" / "peers" / "snmprec").iterdir()}
    assert set(EXPECTED) <= recordings
    for family in bundled_names():
        assert any(name.startswith(family) for name in EXPECTED), family


@pytest.mark.parametrize(("recording", "parts"), [("apc_apdu_chain", 7), ("panduit_chain", 7), ("aten_outlets", 3)])
def test_rows_of_parts_that_do_not_exist_are_left_out(recording: str, parts: int, reply: Reply) -> None:
    assert len(reply[recording]) == 1 + parts


def test_a_family_with_a_tree_for_each_model_may_be_named(recorded: tuple[Sequence[str], int], tmp_path: Path) -> None:
    reply = read_recorded(["gude_banks"], recorded, tmp_path, family="gude")
    compare(reply["gude_banks"], EXPECTED["gude_banks"])
