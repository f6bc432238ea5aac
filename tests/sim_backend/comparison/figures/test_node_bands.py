"""How much of a machine does what: against each node in each second."""

import numpy as np
from hypothesis import given
from random_node_logs import Placed, placed, state_at

from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from offpeak.sim_backend.comparison.figures import (
    BANDS,
    CHANGING,
    FIRST_DEPTH,
    HUNG,
    IDLE,
    RUNNING,
    NodeBands,
    node_bands,
)
from offpeak.sim_backend.nodes.power_curve import powered_curve, standing_draw

BAND_OF_STATE = {ACTIVE: IDLE, FAILED: HUNG}
for depth in range(len(DEPTHS)):
    BAND_OF_STATE |= {going_down(depth): CHANGING, coming_up(depth): CHANGING, asleep(depth): FIRST_DEPTH + depth}


def bands_of(case: Placed) -> NodeBands:
    log = case.powered.node_log
    counts = log.counts(case.powered.usage.begin_s)
    draw = standing_draw(counts, case.powered.node_class, units_per_node=log.units_per_node)
    curve = powered_curve(case.powered.usage, draw)
    return node_bands(curve, counts, units_per_node=log.units_per_node)


@given(placed())
def test_each_second_has_every_unit_in_the_band_of_its_node(case: Placed) -> None:
    usage, log, bands = case.powered.usage, case.powered.node_log, bands_of(case)
    assert bands.units.shape == (BANDS, len(bands.edges_s) - 1)
    for second in range(usage.begin_s, usage.until_s):
        expected = np.zeros(BANDS, np.int64)
        for node in range(log.nodes):
            expected[BAND_OF_STATE[state_at(log, node, second)]] += log.units_per_node
        busy = int(usage.size[(usage.start_s <= second) & (second < usage.end_s)].sum())
        expected[RUNNING] += busy
        expected[IDLE] -= busy
        piece = np.searchsorted(bands.edges_s, second, side="right") - 1
        assert bands.units[:, piece].tolist() == expected.tolist()
