"""Who used a machine whose nodes sleep: idle units share the draw of their node."""

import numpy as np

from offpeak.model.node_class_file import bundled_node_class
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.logs import usage_of
from offpeak_studies.workloads.generate import lublin_jobs


def test_from_the_first_submission_to_the_last_end_on_shared_nodes() -> None:
    jobs = lublin_jobs(20, machine_size=16, seed=1, load=0.5)
    machine = PoweredMachine(16, 4, bundled_node_class("sketch"))
    always_on = make_capacity_policy("always-on", Fleet(4, 4, machine.node_class), CapacitySettings())
    power_w = np.full(len(jobs), 50.0)
    schedule = replay_powered(jobs, power_w, machine, parse_policy("easy", SchedulingSettings()), always_on)
    usage = usage_of(jobs, power_w, schedule, machine)
    assert usage.idle_w == 150 / 4
    assert (usage.begin_s, usage.until_s) == (jobs.submit_s.min(), schedule.end_s.max())
    assert usage.machine_size == 16
