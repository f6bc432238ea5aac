"""Who used a machine whose nodes sleep, and when: what a study takes its figures of sleep from."""

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.step_integrals import Usage
from sim_backend.powered_replay import PoweredMachine, PoweredSchedule


def usage_of(jobs: Jobs, power_w: Float64, schedule: PoweredSchedule, machine: PoweredMachine) -> Usage:
    """Return who used the machine when, from the first submission to the last end."""
    return Usage(
        size=jobs.size,
        node_power_w=power_w,
        start_s=schedule.start_s,
        end_s=schedule.end_s,
        machine_size=machine.size,
        idle_w=machine.node_class.idle_w / machine.units_per_node,
        begin_s=int(jobs.submit_s[0]),
        until_s=int(schedule.end_s.max()),
    )
