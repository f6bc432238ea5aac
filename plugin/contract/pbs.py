"""What the configuration of OpenPBS or Torque promises: the contract, and the rules for each of the two.

The contract has the attributes of the server (`qstat -B -f`), its custom resources and hooks (`qmgr`), and the settings
of the scheduler in sched_config, where this user may read it. See pbs_server_attributes(7B) and pbs_sched(8B).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.orders import PowerState
from offpeak.plugin.contract.rules import Breach, ManagedSite, Rule, Severity, rule
from offpeak.plugin.pbs import jobs as pbs_jobs
from offpeak.plugin.pbs.commands import as_int, limit_s
from offpeak.plugin.pbs.openpbs_server import (
    BEGIN_RESOURCE,
    INSTALL_HINT,
    MODIFYJOB_HOOK,
    NODE_RESOURCE,
    PRIORITY_RESOURCE,
    QUEUEJOB_HOOK,
    RUNJOB_HOOK,
    Formula,
    parse_formula,
)
from offpeak.plugin.pbs.rights import SchedConfig, is_ever_true, order_keys
from offpeak.plugin.scheduler.node import Node, NodeUse

SHORTEST_CHECK_S, LONGEST_CHECK_S = 60, 600
"""pbs_mom reports every 45 s: a Torque server that waits for less takes nodes that are up for dead."""
LONG_HISTORY_S = DAY_S
DEFAULT_HISTORY_S = 14 * DAY_S
LONGEST_CYCLE_S = HOUR_S
SHOWN_NODES = 5

_SETTING = re.compile(r"^\s*(\w+)\s*:?\s+(.+?)\s*$", re.MULTILINE)
_TIME = re.compile(r"\s+(all|prime|non_prime)$", re.IGNORECASE)

DANGER, FAULT, ADVICE = Severity.DANGER, Severity.FAULT, Severity.ADVICE


@dataclass(frozen=True)
class PbsContract:
    """The configuration of a PBS server, and of its scheduler.

    `user` asks the server, which is no manager or operator unless `may_order`. `hidden_jobs` is what hides the jobs of
    others from it, with the remedy. `hidden_config` is the sched_config that it cannot read, "" otherwise. `hooks` are
    the enabled ones, None if the server hides them. `failures` are what went wrong with our hooks and with
    reservations, with hints. `dead_schedulers` do not run. `reorder_problem` is why Torque's jobs do not change
    places, with a hint.
    """

    rules: Sequence[Rule]
    attributes: Mapping[str, str]
    user: pbs_jobs.PbsUser
    may_order: bool = True
    hidden_jobs: tuple[str, str] | None = None
    sched_config: SchedConfig = field(default_factory=dict)
    hidden_config: str = ""
    resources: frozenset[str] = frozenset()
    hooks: frozenset[str] | None = None
    failures: tuple[tuple[str, str], ...] = ()
    dead_schedulers: tuple[str, ...] = ()
    reorder_problem: tuple[str, str] | None = None

    @property
    def formula(self) -> Formula:
        """The formula by which OpenPBS sorts jobs."""
        return parse_formula(self.attributes.get("job_sort_formula", ""))

    def kept_awake(self, nodes: Sequence[Node]) -> Mapping[str, str]:  # noqa: ARG002
        """Return no node: PBS has no setting for that."""
        return {}

    def remedy(self, native_state: str, nodes: str) -> str:
        """Return what to type for nodes that are on, and that no job can use by that state."""
        look = f"`pbsnodes {nodes}` shows the state"
        return f"{look}; start pbs_mom there: `systemctl restart pbs`" if "down" in native_state else look


def parse_sched_config(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values of each setting of sched_config, such as `job_sort_key: "a HIGH" ALL`, in their order.

    A setting may have a value of its own in prime time, and some have several.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, value in _SETTING.findall(text):
        alone = _TIME.sub("", value).strip().strip('"')
        found[name] = (*found.get(name, ()), alone)
    return found


@rule("query_other_jobs", DANGER, "a node whose jobs are hidden looks free", "{subject}", for_queue=True)
def _hidden_jobs(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.hidden_jobs is not None:
        yield Breach(contract.hidden_jobs[0], subject=contract.hidden_jobs[1])


@rule(
    "managers",
    FAULT,
    "the server refuses its orders",
    "qmgr -c 'set server managers += {subject}', or see `command` below [pbs]",
    for_queue=True,
)
def _no_manager(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if not contract.may_order and contract.hidden_jobs is None:
        user = contract.user
        yield Breach(f"{user.user} is neither manager nor operator", subject=f"{user.user}@{user.host}")


@rule("scheduling", FAULT, "nothing is started", "qmgr -c 'set server scheduling = true'", for_queue=True)
def _no_scheduling(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("scheduling", "True") != "True":
        yield Breach("scheduling = False")


@rule(
    "scheduler_iteration",
    FAULT,
    "nodes that are up for a job that cannot start stay up for one and a half times as long",
    "qmgr -c 'set server scheduler_iteration = 600'",
)
def _long_cycle(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if (cycle_s := as_int(contract.attributes.get("scheduler_iteration"))) > LONGEST_CYCLE_S:
        yield Breach(f"scheduler_iteration = {cycle_s}")


@rule("states of nodes", FAULT, "such a node is never switched off", "take {nodes} out of nodes below [agent]")
def _unknown_states(_: PbsContract, site: ManagedSite) -> Iterator[Breach]:
    states: dict[str, list[str]] = {}
    for node in site.switched_nodes:
        if node.use is NodeUse.UNKNOWN and node.responds:
            states.setdefault(node.native_state, []).append(node.name)
    for state, names in states.items():
        shown = ", ".join(names[:SHOWN_NODES]) + (", ..." if len(names) > SHOWN_NODES else "")
        yield Breach(f"{shown}: the state {state!r} is not known", frozenset(names))


SHARED_RULES = (_hidden_jobs, _no_manager, _no_scheduling, _long_cycle, _unknown_states)


@rule(
    "pbs_sched",
    FAULT,
    "it starts no job",
    "start it as root on the server's host: /opt/pbs/sbin/pbs_sched",
    for_queue=True,
)
def _dead_schedulers(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    for name in contract.dead_schedulers:
        yield Breach(f"the scheduler {name} is down")


@rule(
    "poweroff_eligible",
    DANGER,
    "the hook PBS_power may switch the node off, too",
    "qmgr -c 'unset node @default poweroff_eligible', or take {nodes} out of nodes below [agent]",
)
def _nodes_that_pbs_powers(_: PbsContract, site: ManagedSite) -> Iterator[Breach]:
    if nodes := frozenset(node.name for node in site.switched_nodes if node.suspend_s is not None):
        yield Breach("poweroff_eligible = True", nodes)


@rule("resources", FAULT, "nodes cannot be marked, nor jobs moved", INSTALL_HINT, for_queue=True)
def _missing_resources(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    missing = [name for name in (PRIORITY_RESOURCE, BEGIN_RESOURCE, NODE_RESOURCE) if name not in contract.resources]
    if missing:
        yield Breach(f"the server has no resource {', '.join(missing)}")


@rule("job_sort_formula: our term", FAULT, "jobs do not change places", INSTALL_HINT, for_queue=True)
def _no_term(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if not contract.formula.ours:
        yield Breach(f"job_sort_formula has no {PRIORITY_RESOURCE}")


@rule(
    "job_sort_formula: known terms",
    ADVICE,
    "jobs keep their order",
    "remove that term from the formula if a price may change the order",
    for_queue=True,
)
def _hidden_term(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.formula.problem:
        yield Breach(f"job_sort_formula {contract.formula.site!r} cannot be evaluated: {contract.formula.problem}")


@rule(
    "eligible_time_enable", FAULT, "jobs do not age", "qmgr -c 'set server eligible_time_enable = True'", for_queue=True
)
def _eligible_time(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if "eligible_time" in contract.formula.site and contract.attributes.get("eligible_time_enable") != "True":
        yield Breach("eligible_time_enable = False, and job_sort_formula has eligible_time")


@rule(
    "job_sort_key, fair_share",
    ADVICE,
    "offpeak does not know that order, so jobs keep it",
    "write the order into job_sort_formula if a price may change it",
    for_queue=True,
)
def _other_order(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if (keys := order_keys(contract.sched_config)) and not contract.formula.site:
        yield Breach(f"sched_config orders jobs by {' and '.join(keys)}")


@rule(
    "sched_config",
    FAULT,
    "it may order jobs, so they keep their order; with a job_sort_formula the jobs of one user may change places",
    INSTALL_HINT,
    for_queue=True,
)
def _hidden_config(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.hidden_config:
        yield Breach(f"{contract.user.user} cannot read {contract.hidden_config}")


@rule("offpeak_runjob", FAULT, "no job is deferred", INSTALL_HINT, for_queue=True)
def _no_runjob_hook(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.hooks is not None and RUNJOB_HOOK not in contract.hooks:
        yield Breach(f"the server has no enabled hook {RUNJOB_HOOK}")


@rule(
    "offpeak_queuejob",
    FAULT,
    "invalid hints pass, and a job that may wait starts at its submission where nodes are free",
    INSTALL_HINT,
    for_queue=True,
)
def _no_queuejob_hook(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.hooks is not None and QUEUEJOB_HOOK not in contract.hooks:
        yield Breach(f"the server has no enabled hook {QUEUEJOB_HOOK}")


@rule("offpeak_modifyjob", FAULT, "users raise their own jobs' priority", INSTALL_HINT, for_queue=True)
def _no_modifyjob_hook(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.hooks is not None and MODIFYJOB_HOOK not in contract.hooks:
        yield Breach(f"the server has no enabled hook {MODIFYJOB_HOOK}")


@rule("hooks and reservations", FAULT, "what they say is not obeyed", "{subject}", for_queue=True)
def _failures(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    for message, hint in contract.failures:
        yield Breach(message, subject=hint)


@rule(
    "smp_cluster_dist",
    FAULT,
    "jobs are spread over nodes, and few nodes are idle",
    "write `smp_cluster_dist: pack` into sched_config, then kill -HUP pbs_sched",
)
def _spread_jobs(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    for way in dict.fromkeys(contract.sched_config.get("smp_cluster_dist", ())):
        if way != "pack":
            yield Breach(f"smp_cluster_dist: {way} in sched_config")


@rule(
    "node_sort_key",
    FAULT,
    "jobs get the emptiest node first, and few nodes are idle",
    'write `node_sort_key: "sort_priority HIGH" ALL` into sched_config, then kill -HUP pbs_sched',
)
def _emptiest_first(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    for key in dict.fromkeys(contract.sched_config.get("node_sort_key", ())):
        if re.search(r"\bHIGH\s+unused|\bLOW\s+assigned", key):
            yield Breach(f"node_sort_key: {key} in sched_config")


@rule(
    "PBS_power",
    ADVICE,
    "pbs_rsub is denied where it needs nodes that sleep",
    "qmgr -c 'set pbshook PBS_power enabled = True', or keep enough nodes awake: keep_hot below [capacity], "
    "min_on below [agent]",
)
def _denied_reservations(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("power_provisioning") != "True":
        yield Breach("the hook PBS_power is disabled")


@rule(
    "job_history_duration",
    ADVICE,
    "the agent reads all these ended jobs in each cycle",
    "qmgr -c 'set server job_history_duration = 24:00:00'",
    for_queue=True,
)
def _long_history(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    kept_s = limit_s(contract.attributes.get("job_history_duration")) or DEFAULT_HISTORY_S
    if contract.attributes.get("job_history_enable") == "True" and kept_s > LONG_HISTORY_S:
        yield Breach(f"job_history_duration = {kept_s // HOUR_S}:00:00")


@rule(
    "node_fail_requeue",
    FAULT,
    "a job that was lost with its node stays on the node's list, and the node never sleeps",
    "qmgr -c 'unset server node_fail_requeue'",
)
def _no_requeue_of_lost_jobs(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("node_fail_requeue") == "0":
        yield Breach("node_fail_requeue = 0")


@rule(
    "round_robin",
    ADVICE,
    "jobs of queues of one priority take turns, whatever the order that a price gives them",
    "write `round_robin: False all` into sched_config, then kill -HUP pbs_sched",
    for_queue=True,
)
def _queues_in_turn(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if is_ever_true(contract.sched_config, "round_robin"):
        yield Breach("round_robin: True in sched_config")


OPENPBS_RULES = (
    *SHARED_RULES,
    _dead_schedulers,
    _nodes_that_pbs_powers,
    _missing_resources,
    _no_term,
    _hidden_term,
    _eligible_time,
    _other_order,
    _hidden_config,
    _no_runjob_hook,
    _no_queuejob_hook,
    _no_modifyjob_hook,
    _failures,
    _spread_jobs,
    _emptiest_first,
    _no_requeue_of_lost_jobs,
    _queues_in_turn,
    _denied_reservations,
    _long_history,
)


@rule(
    "power_state",
    DANGER,
    "another program sends these nodes to sleep, and Torque gives them no job",
    "pbsnodes -m running NODE, or take {nodes} out of nodes below [agent]",
)
def _nodes_that_another_powers(_: PbsContract, site: ManagedSite) -> Iterator[Breach]:
    nodes = [node for node in site.switched_nodes if node.power is PowerState.OFF and not node.is_marked]
    if nodes:
        yield Breach("power_state is not Running", frozenset(node.name for node in nodes))


@rule(
    "cray_enabled",
    DANGER,
    "the nodes of a Cray are powered by its own system",
    "leave nodes below [agent] out, or qmgr -c 'set server cray_enabled = False' if this is no Cray",
)
def _cray(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("cray_enabled") == "True":
        yield Breach("cray_enabled = True")


@rule("sort_by", FAULT, "no known way changes the order of jobs", "{subject}", for_queue=True)
def _no_reordering(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.reorder_problem is not None:
        yield Breach(contract.reorder_problem[0], subject=contract.reorder_problem[1])


@rule(
    "mom_job_sync",
    FAULT,
    "a job that was lost with its node stays on the node's list, and the node never sleeps",
    "qmgr -c 'set server mom_job_sync = True'",
)
def _no_job_sync(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("mom_job_sync") == "False":
        yield Breach("mom_job_sync = False")


@rule(
    "node_check_rate",
    FAULT,
    f"below {SHORTEST_CHECK_S} s nodes that are up count as down, above {LONGEST_CHECK_S} s dead nodes as up",
    "qmgr -c 'set server node_check_rate = 150'",
)
def _check_rate(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    rate_s = as_int(contract.attributes.get("node_check_rate"))
    if rate_s and not SHORTEST_CHECK_S <= rate_s <= LONGEST_CHECK_S:
        yield Breach(f"node_check_rate = {rate_s}")


@rule(
    "disable_automatic_requeue",
    FAULT,
    "a job is lost whose start fails on a node that has just woken",
    "qmgr -c 'set server disable_automatic_requeue = False'",
)
def _no_requeue(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("disable_automatic_requeue") == "True":
        yield Breach("disable_automatic_requeue = True")


@rule(
    "load_balancing",
    FAULT,
    "jobs are spread over nodes, and few nodes are idle",
    "write `load_balancing: false ALL` into sched_config, then restart pbs_sched",
)
def _load_balancing(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    for name in ("load_balancing", "load_balancing_rr"):
        if is_ever_true(contract.sched_config, name):
            yield Breach(f"{name}: true in sched_config")


@rule(
    "node_pack",
    FAULT,
    "jobs are scattered across nodes, and few nodes are idle",
    "qmgr -c 'set server node_pack = True'",
)
def _scattered_jobs(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.attributes.get("node_pack") == "False":
        yield Breach("node_pack = False")


@rule(
    "keep_completed",
    ADVICE,
    "the agent reads all these ended jobs in each cycle",
    "qmgr -c 'set server keep_completed = 300'",
    for_queue=True,
)
def _long_keeping(contract: PbsContract, _: ManagedSite) -> Iterator[Breach]:
    if (kept_s := as_int(contract.attributes.get("keep_completed"))) > LONG_HISTORY_S:
        yield Breach(f"keep_completed = {kept_s}")


TORQUE_RULES = (
    *SHARED_RULES,
    _nodes_that_another_powers,
    _cray,
    _no_reordering,
    _no_job_sync,
    _check_rate,
    _no_requeue,
    _load_balancing,
    _scattered_jobs,
    _long_keeping,
)
