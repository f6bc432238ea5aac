"""Terms of sleep: those of a usual class, and that no class costs less than its terms say."""

import numpy as np
from hypothesis import given
from random_node_logs import IDLE_W, node_classes

from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.nodes.bounds import sleep_terms


def test_a_server() -> None:
    server = bundled_node_class("server")
    standby, off = server.depths
    terms = sleep_terms(server, server.idle_w)
    assert terms.asleep_w.tolist() == [server.idle_w, standby.power_w, off.power_w]
    assert terms.enter_j.tolist() == [
        0.0,
        *(depth.enter.duration_s * (depth.enter.power_w - depth.power_w) for depth in (standby, off)),
    ]
    assert (terms.cut_enter_j, terms.cut_leave_j) == (0.0, 0.0)


@given(node_classes())
def test_they_are_in_order_and_never_too_high(node_class: NodeClass) -> None:
    terms = sleep_terms(node_class, IDLE_W)
    assert np.all(np.diff(terms.asleep_w) <= 0)
    assert np.all(np.diff(terms.enter_j) >= 0)
    assert np.all(np.diff(terms.leave_j) >= 0)
    for depth in node_class.depths:
        cycle_j = depth.enter.energy_j + depth.power_w * 60 + depth.leave.energy_j
        length_s = depth.enter.duration_s + 60 + depth.leave.duration_s
        assert (terms.enter_j + terms.leave_j + terms.asleep_w * length_s).min() <= cycle_j + 1e-6
