"""The head node's own load."""

import asyncio

from offpeak.power.meters.kernel import read_head_node_load


def test_load_of_the_head_node_is_measured() -> None:
    load = asyncio.run(read_head_node_load(over_s=0.05))
    assert 0 <= load.cpu_percent <= 100
    assert 0 < load.memory_percent <= 100
    assert load.temperature_c is None or 0 < load.temperature_c < 150
