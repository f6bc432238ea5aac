"""What the servers of PBS promise, on their stand-ins: check, init, agent, status and page name the same faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from powered_pbs import PoweredPbs, powered_pbs
from told_findings import broken_rules, told_findings
from zygote import Zygote

from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.contract.pbs import OPENPBS_RULES, TORQUE_RULES
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

RULES = {OPENPBS: OPENPBS_RULES, TORQUE: TORQUE_RULES}
CLEAN = {OPENPBS: ("set pbshook PBS_power enabled = True",), TORQUE: ()}
FAULTS = {
    OPENPBS: (
        "set server scheduling = false",
        'set server job_sort_formula = "eligible_time + fair_share_perc"',
        "set server job_history_enable = True",
        "delete hook offpeak_runjob",
        "delete hook offpeak_modifyjob",
        "set pbshook PBS_power enabled = False",
    ),
    TORQUE: (
        "set server scheduling = false",
        "set server mom_job_sync = False",
        "set server node_check_rate = 20",
        "set server disable_automatic_requeue = True",
        "set server node_pack = False",
        "set server cray_enabled = True",
        "set server keep_completed = 604800",
    ),
}
CONFIG = {OPENPBS: "", TORQUE: "sort_by: shortest_job_first ALL\nload_balancing: true ALL\n"}
BROKEN = {
    OPENPBS: {
        *("scheduling", "job_sort_formula: our term", "job_sort_formula: known terms", "eligible_time_enable"),
        *("offpeak_runjob", "offpeak_modifyjob", "PBS_power", "job_history_duration"),
    },
    TORQUE: {
        *("scheduling", "mom_job_sync", "node_check_rate", "disable_automatic_requeue", "node_pack", "cray_enabled"),
        *("keep_completed", "sort_by", "load_balancing"),
    },
}


@pytest.fixture(scope="module", params=[TORQUE, OPENPBS])
def cluster(request: pytest.FixtureRequest, bmc_commands: Path, zygote: Zygote) -> Iterator[PoweredPbs]:
    with powered_pbs(request.param, PoweredPlan(nodes=3), bmc_commands) as made:
        made.offpeak = (str(zygote.command),)
        yield made


def test_all_commands_name_the_same_faults_in_the_same_words(
    cluster: PoweredPbs, zygote: Zygote, tmp_path: Path
) -> None:
    config = tmp_path / "sched_priv" / "sched_config"
    config.parent.mkdir()
    config.write_text("sort_by: high_priority_first ALL\n")
    changes = {"pbs": {**cluster.settings["pbs"], "home": str(tmp_path), "torque_order": "auto"}}
    for command in CLEAN[cluster.kind]:
        cluster.server.run("qmgr", "-c", command)
    assert told_findings(cluster, tmp_path / "clean", zygote.start, changes) == []
    for command in FAULTS[cluster.kind]:
        cluster.server.run("qmgr", "-c", command)
    config.write_text(CONFIG[cluster.kind])
    messages = told_findings(cluster, tmp_path / "faults", zygote.start, changes)
    assert broken_rules(messages, RULES[cluster.kind]) == BROKEN[cluster.kind]
