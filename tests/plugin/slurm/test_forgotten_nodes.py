"""A node that slurmctld has lost sight of is powered down only where it has no job, and nobody else has closed it."""

import pytest

from offpeak.model.orders import NodeChange
from offpeak.plugin.slurm.changes import _change_refusal
from offpeak.plugin.slurm.nodes import nodes_of_text

SILENT = "NodeName=n1 CPUAlloc={cpus} CPUTot=4 State={state} Partitions=batch Reason={reason} [root@now]\n"


@pytest.mark.parametrize(
    ("state", "reason", "cpus", "may_go_down"),
    [
        ("UNKNOWN+NOT_RESPONDING", "none", 0, True),
        ("UNKNOWN+DRAIN+NOT_RESPONDING", "offpeak: sleeps", 0, True),
        ("UNKNOWN+DRAIN+NOT_RESPONDING", "offpeak: sleeps", 4, False),
        ("UNKNOWN+DRAIN+NOT_RESPONDING", "new DIMM", 0, False),
        ("IDLE+COMPLETING+DRAIN+NOT_RESPONDING", "offpeak: sleeps", 0, True),
        ("UNKNOWN+REBOOT_ISSUED+NOT_RESPONDING", "offpeak: sleeps", 0, False),
    ],
)
def test_only_a_node_without_a_job_that_is_ours_goes_down(
    state: str, reason: str, cpus: int, *, may_go_down: bool
) -> None:
    (node,) = nodes_of_text(SILENT.format(state=state, reason=reason, cpus=cpus).encode())
    assert (not _change_refusal("n1", {"n1": node}, NodeChange.POWER_DOWN)) is may_go_down
