"""Small fleets with random prices ahead, and a node class whose transitions take seconds."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from random_snapshots import NOW_S

from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import OFF, POWERSAVE, STANDBY
from offpeak.model.snapshot import QueuedJobs, Snapshot
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.price_profile import PowerTerms, PricesAhead, make_power_terms
from offpeak.settings.capacity import CapacitySettings

QUICK = NodeClass(
    "quick",
    100.0,
    ((0.0, 100.0), (1.0, 300.0)),
    (
        DepthPower(POWERSAVE, 80.0, Transition(1, 100.0, 0.0), Transition(1, 100.0, 0.0)),
        DepthPower(STANDBY, 30.0, Transition(2, 100.0, 0.0), Transition(3, 100.0, 0.0)),
        DepthPower(OFF, 10.0, Transition(3, 100.0, 0.0), Transition(8, 150.0, 0.0)),
    ),
)


def fleet_of(snapshot, at_s=(), per_mwh=(), node_class=QUICK) -> Fleet:
    """Return the snapshot's nodes, all of one class, with these prices."""
    nodes = len(snapshot.node_state)
    return Fleet(
        nodes, snapshot.units_per_node, node_class, 0.5, np.array(at_s, dtype=np.int64), np.array(per_mwh, dtype=float)
    )


def terms_for(snapshot, node_class=QUICK) -> PowerTerms:
    """Return terms without bounds on sleep."""
    return make_power_terms(fleet_of(snapshot, node_class=node_class), CapacitySettings())


def prices_of(*intervals) -> PricesAhead:
    """Return prices of pairs (seconds, price), from now on."""
    lengths, per_mwh = zip(*intervals, strict=True)
    edges = NOW_S + np.cumsum([0, *lengths])
    return PricesAhead(edges[:-1], np.array(per_mwh, dtype=float), int(edges[-1]))


def with_latest_ends(snapshot: Snapshot, latest_end_s) -> Snapshot:
    """Return the snapshot with a green SLA for its queued jobs."""
    queued = snapshot.queued
    return replace(snapshot, queued=QueuedJobs(queued.size, queued.submit_s, queued.estimate_s, np.array(latest_end_s)))


@st.composite
def prices(draw) -> PricesAhead:
    """Up to 6 intervals of up to 60 s, some of them negative; neighbours differ."""
    values = draw(st.lists(st.integers(-40, 200), min_size=1, max_size=6))
    kept = [value for at, value in enumerate(values) if at == 0 or value != values[at - 1]]
    return prices_of(*((draw(st.integers(1, 60)), value) for value in kept))
