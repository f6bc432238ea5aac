"""What the configuration of Slurm promises: the contract, and the rules for nodes that offpeak puts to sleep.

The contract is parsed from `scontrol show config` and `scontrol --all show partitions`; Slurm 26.05 shows the
SuspendTime of each node with the node. slurm.conf(5) describes the settings.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.display import duration_text
from offpeak.machines.node_sets import fold_names
from offpeak.model.constants import DAY_S
from offpeak.plugin.contract.rules import Breach, ManagedSite, Rule, Severity, rule
from offpeak.plugin.contract.slurm_exclusions import (
    INFINITE,
    NO_EXCLUSIONS,
    NODES,
    Exclusions,
    parse_exclusions,
    parse_suspend_s,
)
from offpeak.plugin.contract.slurm_programs import (
    FOLDER,
    NEXT_FILE,
    PROGRAMS,
    RESUME,
    RESUME_FAIL,
    SUSPEND,
    PowerProgram,
    read_next_nodes,
    read_programs,
)
from offpeak.plugin.contract.slurm_rights import ALL_RIGHTS, AdminLevel, SlurmRights
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.slurm.commands import count

A_YEAR_S = 31_536_000
# Less than this, and Slurm may suspend a node before the agent has decided.
LONG_S = 30 * DAY_S
# The time from the order to power off until a server is off.
SHUTDOWN_S = 180
ENOUGH_AT_ONCE = 500
"""Requests: a cycle reads with about ten, and changes up to 500 jobs with one each."""
LONGEST_INTERVAL_S = 60
"""With a longer power_save_interval slurmctld itself switches its power saving off."""

Fields = Mapping[str, str]

RECONFIGURE, RESTART = "then `scontrol reconfigure`", "then restart slurmctld"
IN_CONF = "in slurm.conf"
LUA = "/usr/share/offpeak/slurm/job_submit.lua"
DANGER, FAULT, ADVICE = Severity.DANGER, Severity.FAULT, Severity.ADVICE


@dataclass(frozen=True)
class SlurmContract:
    """The settings of slurmctld, the fields of each partition, and the power programs.

    `rate_limit` is how many requests slurmctld takes from this user at once, and a second; None for any number.
    `next_nodes` are the nodes of programs of the site's own, None if they are not known.
    """

    settings: Fields
    partitions: Mapping[str, Fields] = field(default_factory=dict)
    programs: Mapping[str, PowerProgram] = field(default_factory=dict)
    exclusions: Exclusions = NO_EXCLUSIONS
    rights: SlurmRights = ALL_RIGHTS
    rate_limit: tuple[int, float] | None = None
    next_nodes: frozenset[str] | None = None

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules for Slurm."""
        return SLURM_RULES

    @property
    def can_power_nodes(self) -> bool:
        """Whether slurmctld powers nodes up and down: it has a SuspendTime and both programs."""
        return self.suspend_s < math.inf and all(_is_usable(self, name) for name in (SUSPEND, RESUME))

    @property
    def suspend_s(self) -> float:
        """The idle time after which Slurm itself suspends a node; infinite for never."""
        after_s = parse_suspend_s(self.settings.get("SuspendTime", ""))
        # With 0 Slurm suspends a node as soon as it is idle.
        return math.inf if after_s is None else after_s

    @property
    def parameters(self) -> Fields:
        """SlurmctldParameters by their names."""
        return dict(each.partition("=")[::2] for each in self.settings.get("SlurmctldParameters", "").split(","))

    def resume_timeout_s(self, node: Node) -> int:
        """Return the ResumeTimeout of a node: the longest of its partitions, else that of the cluster."""
        own = [count(self.partitions.get(name, {}).get("ResumeTimeout", "")) for name in node.partitions]
        return max(own, default=0) or count(self.settings.get("ResumeTimeout", ""))

    def partition_suspend_s(self, node: Node) -> float | None:
        """Return the longest SuspendTime of a node's partitions, which holds; None if none has one of its own."""
        own = (parse_suspend_s(self.partitions.get(name, {}).get("SuspendTime", "")) for name in node.partitions)
        return max((each for each in own if each is not None), default=None)

    def node_suspend_s(self, node: Node) -> float:
        """Return the SuspendTime of a node: its own, else that of its partitions, else that of the cluster."""
        own_s = (node.suspend_s, self.partition_suspend_s(node), self.suspend_s)
        return next(each for each in own_s if each is not None)

    def kept_awake(self, nodes: Sequence[Node]) -> Mapping[str, str]:
        """Return the nodes that stay awake by their state, or by the count of a set in SuspendExcNodes."""
        return self.exclusions.of_now(nodes)

    def remedy(self, native_state: str, nodes: str) -> str:
        """Return what to type for nodes that are on, and that no job can use by that state."""
        update = f"scontrol update nodename={nodes}"
        if "UNKNOWN" in native_state:
            return f"`{update} state=down reason=lost`, then `{update} state=resume`"
        again = "; offpeak then lets it boot again, as Slurm wants" if "POWER" in native_state else ""
        return f"look whether slurmd runs there, then `{update} state=resume`{again}"


def make_slurm_contract(
    settings: Fields,
    partitions: Mapping[str, Fields],
    rights: SlurmRights = ALL_RIGHTS,
    *,
    rate_limit: tuple[int, float] | None = None,
) -> SlurmContract:
    """Return the contract. It looks at the power programs if this machine is a controller."""
    programs, exclusions = read_programs(settings), parse_exclusions(settings)
    next_nodes = read_next_nodes(settings)
    return SlurmContract(settings, partitions, programs, exclusions, rights, rate_limit, next_nodes)


@rule("PrivateData", DANGER, "a node whose jobs are hidden looks free", "{subject}", for_queue=True)
def _hidden_data(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.rights.hidden_data:
        yield Breach(contract.rights.hidden_data, subject=contract.rights.hint)


@rule(
    "SuspendProgram, ResumeProgram: set",
    DANGER,
    "Slurm has no node woken for a job",
    f"write {{subject}} into slurm.conf, {RESTART}",
)
def _missing_programs(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    for name in (SUSPEND, RESUME):
        if not contract.settings.get(name):
            yield Breach(f"{name} is not set", subject=_line_of(name))


@rule(
    "SuspendProgram, ResumeProgram: can be run",
    DANGER,
    "slurmctld powers no node, and wakes none for a job",
    f"mend it on each controller, or write {{subject}} into slurm.conf, {RESTART}",
)
def _unusable_programs(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    for name in (SUSPEND, RESUME):
        if (program := contract.programs.get(name)) and program.problem:
            yield Breach(f"{name}={program.text}: {program.problem}", subject=_line_of(name))


@rule(
    "SuspendProgram, ResumeProgram: offpeak's",
    DANGER,
    "it may switch nodes off without asking offpeak's rules, and the agent is not told which nodes jobs need",
    f"write {{subject}} into slurm.conf, {RESTART}; next_program.conf names the site's own program for its nodes",
)
def _foreign_programs(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    for name in (SUSPEND, RESUME):
        if (program := contract.programs.get(name)) and program.is_foreign:
            yield Breach(f"{name}={program.text} is not offpeak's", subject=_line_of(name))


@rule(
    "SuspendTime: long",
    DANGER,
    "Slurm itself suspends nodes that are idle for so long",
    f"write SuspendTime={A_YEAR_S} into slurm.conf, {RESTART}",
)
def _short_suspend_time(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    if contract.suspend_s < LONG_S:
        own = {node.name for node in site.switched_nodes if contract.partition_suspend_s(node) is not None}
        own |= {node.name for node in site.switched_nodes if node.suspend_s not in (None, contract.suspend_s)}
        yield Breach(f"SuspendTime={contract.suspend_s:.0f}", site.switched - own)


@rule(
    "SuspendTime of a partition",
    DANGER,
    "Slurm itself suspends its idle nodes",
    f"take SuspendTime out of PartitionName={{subject}} {IN_CONF}, {RESTART}",
)
def _suspending_partitions(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    for name, fields in contract.partitions.items():
        after_s = parse_suspend_s(fields.get("SuspendTime", ""))
        if after_s is None or after_s >= LONG_S:
            continue
        # The longest of several partitions holds, and a node's own time above all of them.
        short = [
            node.name
            for node in site.switched_by_partition.get(name, ())
            if (contract.partition_suspend_s(node) or 0.0) < LONG_S and (node.suspend_s or 0.0) < LONG_S
        ]
        if short:
            yield Breach(f"partition {name}: SuspendTime={after_s:.0f}", frozenset(short), name)


@rule(
    "SuspendTime of a node",
    DANGER,
    "Slurm itself suspends these nodes when they are idle",
    f"take SuspendTime out of NodeName={{nodes}} {IN_CONF}, {RESTART}",
)
def _suspending_nodes(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    for after_s, names in _suspend_times_of_nodes(contract, site):
        if after_s < LONG_S:
            yield Breach(f"NodeName lines: SuspendTime={after_s:.0f}", names)


@rule(
    "PowerDownOnIdle",
    DANGER,
    "Slurm itself powers its nodes down after each job",
    f"take PowerDownOnIdle out of PartitionName={{subject}} {IN_CONF}, {RECONFIGURE}",
)
def _partitions_that_power_down(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    for name, fields in contract.partitions.items():
        nodes = site.switched_by_partition.get(name) if fields.get("PowerDownOnIdle") == "YES" else None
        if nodes:
            yield Breach(f"partition {name}: PowerDownOnIdle=YES", frozenset(node.name for node in nodes), name)


@rule(
    "ResumeTimeout",
    DANGER,
    "Slurm requeues the job and takes the node for dead before it is up",
    f"write ResumeTimeout={{subject}} into slurm.conf, {RECONFIGURE}",
)
def _short_resume_timeout(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    by_limit: dict[tuple[int, float], set[str]] = {}
    for node in site.switched_nodes:
        boots_s, limit_s = site.boots_s.get(node.name, ()), contract.resume_timeout_s(node)
        # One slow boot, such as for a check of the disk, is no reason to leave all nodes awake.
        longest_but_one_s = min(sorted(boots_s)[-2:], default=0.0)
        if 0 < limit_s < longest_but_one_s:
            by_limit.setdefault((limit_s, max(boots_s)), set()).add(node.name)
    for (limit_s, longest_s), names in by_limit.items():
        what = f"ResumeTimeout={limit_s}, and boots took up to {duration_text(math.ceil(longest_s))}"
        yield Breach(what, frozenset(names), f"{2 * math.ceil(longest_s)}")


@rule(
    "SuspendExcNodes, SuspendExcParts",
    DANGER,
    "the site keeps these nodes powered",
    f"take {{nodes}} out of nodes below [agent], or out of {{subject}} {IN_CONF}, {RECONFIGURE}",
    excludes=True,
)
def _excluded(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    for setting, nodes in contract.exclusions.of_nodes(site.switched_nodes).items():
        yield Breach(setting, nodes, setting.partition("=")[0])


@rule(
    "SuspendExcNodes: known nodes",
    DANGER,
    "which nodes the site keeps powered is not known",
    f"write the names of nodes into SuspendExcNodes {IN_CONF} in place of a NodeSet, {RECONFIGURE}",
)
def _unknown_exclusions(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    if site.nodes and (unknown := contract.exclusions.unknown_names(site.nodes)):
        yield Breach(f"{NODES} names {', '.join(unknown)}, which is not a node that Slurm shows")


@rule(
    "SuspendTime of a node: finite",
    DANGER,
    "the site never suspends these nodes",
    f"take {{nodes}} out of nodes below [agent], or SuspendTime out of NodeName={{nodes}} {IN_CONF}, {RESTART}",
    excludes=True,
)
def _nodes_never_suspended(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    for after_s, names in _suspend_times_of_nodes(contract, site):
        if after_s == math.inf > contract.suspend_s:
            yield Breach(f"NodeName lines: SuspendTime={INFINITE}", names)


@rule(
    "CLOUD",
    DANGER,
    "ResumeProgram makes these nodes, no BMC wakes them",
    "take {nodes} out of nodes below [agent]",
    excludes=True,
)
def _cloud_nodes(_: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    if cloud := frozenset(node.name for node in site.switched_nodes if _is_cloud(node)):
        yield Breach("State=CLOUD", cloud)


@rule(
    "SuspendTime: finite",
    FAULT,
    "Slurm powers down no node",
    f"write SuspendTime={A_YEAR_S} into slurm.conf, {RESTART}",
)
def _no_suspend_time(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.suspend_s == math.inf:
        yield Breach(f"SuspendTime={INFINITE}")


@rule(
    "ResumeFailProgram",
    FAULT,
    "the agent is not told of nodes that did not come up",
    f"write {{subject}} into slurm.conf, {RESTART}",
)
def _no_resume_fail_program(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    program = contract.programs.get(RESUME_FAIL, PowerProgram(""))
    if not program.text:
        yield Breach(f"{RESUME_FAIL} is not set", subject=_line_of(RESUME_FAIL))
    elif program.problem or program.is_foreign:
        why = program.problem or "it is not offpeak's"
        yield Breach(f"{RESUME_FAIL}={program.text}: {why}", subject=_line_of(RESUME_FAIL))


@rule(
    "ReturnToService",
    FAULT,
    "a node that Slurm took for dead while it slept may stay down",
    f"write ReturnToService=2 into slurm.conf, {RECONFIGURE}",
)
def _no_return(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    if (returns := contract.settings.get("ReturnToService", "")) != "2":
        yield Breach(f"ReturnToService={returns}")


@rule(
    "SlurmdTimeout",
    FAULT,
    "Slurm takes a node for dead before it has shut down",
    f"write SlurmdTimeout={{subject}} into slurm.conf, {RECONFIGURE}",
)
def _short_slurmd_timeout(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    silent_s, down_s = (count(contract.settings.get(name, "")) for name in ("SlurmdTimeout", "SuspendTimeout"))
    if 0 < silent_s < max(SHUTDOWN_S, down_s):
        shutdown = f" with SuspendTimeout={down_s}" if down_s > SHUTDOWN_S else ""
        yield Breach(f"SlurmdTimeout={silent_s}{shutdown}", subject=f"{max(300, down_s + 60)}")


@rule(
    "ResumeRate",
    FAULT,
    "Slurm requests fewer nodes a minute than offpeak may wake, and jobs wait for the others",
    f"write ResumeRate={{subject}} into slurm.conf, the value of wakes_per_min below [agent], {RECONFIGURE}",
)
def _slow_resume_rate(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    rate = count(contract.settings.get("ResumeRate", ""))
    if 0 < rate < min(site.wakes_per_min, len(site.switched)):
        yield Breach(f"ResumeRate={rate}", subject=f"{site.wakes_per_min}")


@rule(
    "SuspendRate",
    FAULT,
    "Slurm learns late of nodes that are off, and wakes none of them for a job before",
    f"write SuspendRate=0 into slurm.conf, {RECONFIGURE}",
)
def _slow_suspend_rate(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    rate = count(contract.settings.get("SuspendRate", ""))
    if 0 < rate < min(site.nodes_per_sweep, len(site.switched)):
        yield Breach(f"SuspendRate={rate}")


@rule(
    "power_save_interval",
    FAULT,
    "slurmctld wakes nodes late, or none with a ResumeRate or SuspendRate",
    f"take {{subject}} out of SlurmctldParameters {IN_CONF}, {RECONFIGURE}",
)
def _long_interval(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    for name in ("power_save_interval", "power_save_min_interval"):
        if (interval_s := count(contract.parameters.get(name, ""))) > LONGEST_INTERVAL_S:
            yield Breach(f"SlurmctldParameters={name}={interval_s}", subject=name)


@rule(
    "idle_on_node_suspend",
    FAULT,
    "a node that was drained or is down becomes idle when it is powered down, and jobs get it",
    f"take idle_on_node_suspend out of SlurmctldParameters {IN_CONF}, {RECONFIGURE}",
)
def _idle_on_suspend(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    if "idle_on_node_suspend" in contract.parameters:
        yield Breach("SlurmctldParameters=idle_on_node_suspend")


@rule(
    "max_powered_nodes",
    FAULT,
    "jobs wait although nodes sleep, and wakes are refused",
    f"take max_powered_nodes out of SlurmctldParameters {IN_CONF}, {RECONFIGURE}",
)
def _fewest_powered(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    most, own = contract.parameters.get("max_powered_nodes", ""), sum(not _is_cloud(node) for node in site.nodes)
    if most.isdecimal() and int(most) < own:
        yield Breach(f"SlurmctldParameters=max_powered_nodes={most}, and Slurm has {own} nodes")


@rule(
    "next_program.conf",
    FAULT,
    "offpeak's ResumeProgram makes and wakes no such node, and jobs there wait until ResumeTimeout",
    f"write nodes = {{nodes}} and their programs into {NEXT_FILE} on each controller",
)
def _nodes_without_program(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    """Yield the nodes that Slurm itself suspends or makes, and that offpeak's programs do not hand on."""
    resume = contract.programs.get(RESUME, PowerProgram(""))
    if contract.next_nodes is None or not resume.text or resume.is_foreign:
        return
    others = [node for node in site.nodes if node.name not in site.switched and node.name not in contract.next_nodes]
    suspended = (node for node in others if contract.node_suspend_s(node) < LONG_S)
    if left := {*(node.name for node in others if _is_cloud(node)), *(node.name for node in suspended)}:
        yield Breach(f"{NEXT_FILE} does not name {fold_names(left)}", frozenset(left))


@rule(
    "job_submit.lua, defer",
    ADVICE,
    "a job that may wait starts at its submission where nodes are free, before offpeak can delay it",
    f"copy {LUA} beside slurm.conf, write JobSubmitPlugins=lua into slurm.conf, {RESTART}",
    for_queue=True,
)
def _no_delay_at_submission(contract: SlurmContract, site: ManagedSite) -> Iterator[Breach]:
    submission = contract.settings.get("JobSubmitPlugins", "").split(",")
    scheduling = contract.settings.get("SchedulerParameters", "").split(",")
    if site.may_delay and "lua" not in submission and "defer" not in scheduling:
        yield Breach("neither JobSubmitPlugins=lua nor SchedulerParameters=defer is set")


@rule(
    "AdminLevel",
    ADVICE,
    "Slurm refuses its orders to nodes, and below Operator those to jobs",
    "{subject}",
    for_queue=True,
)
def _low_level(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    rights = contract.rights
    if rights.level is not AdminLevel.ADMINISTRATOR:
        yield Breach(f"{rights.user}'s AdminLevel is {rights.level}", subject=rights.hint)


@rule(
    "rl_enable",
    ADVICE,
    "many changes of jobs are spread over cycles",
    f"write rl_bucket_size=1000,rl_refill_rate=100 behind rl_enable in SlurmctldParameters, {RESTART}",
    for_queue=True,
)
def _rate_limit(contract: SlurmContract, _: ManagedSite) -> Iterator[Breach]:
    if contract.rate_limit is not None and contract.rate_limit[0] < ENOUGH_AT_ONCE:
        at_once, per_s = contract.rate_limit
        limit = f"slurmctld answers this user {at_once} requests, then {per_s:g} a second"
        yield Breach(f"SlurmctldParameters=rl_enable, {limit}")


SLURM_RULES = (
    _hidden_data,
    _missing_programs,
    _unusable_programs,
    _foreign_programs,
    _short_suspend_time,
    _suspending_partitions,
    _suspending_nodes,
    _partitions_that_power_down,
    _short_resume_timeout,
    _excluded,
    _unknown_exclusions,
    _nodes_never_suspended,
    _cloud_nodes,
    _no_suspend_time,
    _no_resume_fail_program,
    _no_return,
    _short_slurmd_timeout,
    _slow_resume_rate,
    _slow_suspend_rate,
    _long_interval,
    _idle_on_suspend,
    _fewest_powered,
    _nodes_without_program,
    _no_delay_at_submission,
    _low_level,
    _rate_limit,
)


def _suspend_times_of_nodes(contract: SlurmContract, site: ManagedSite) -> Iterator[tuple[float, frozenset[str]]]:
    """Yield each SuspendTime that nodes have of their own, with the nodes; Slurm shows it from 26.05 on."""
    by_time: dict[float, set[str]] = {}
    for node in site.switched_nodes:
        if node.suspend_s is not None and node.suspend_s not in (
            contract.suspend_s,
            contract.partition_suspend_s(node),
        ):
            by_time.setdefault(node.suspend_s, set()).add(node.name)
    yield from ((after_s, frozenset(names)) for after_s, names in sorted(by_time.items()))


def _line_of(name: str) -> str:
    return f"{name}={FOLDER}/{PROGRAMS[name]}"


def _is_cloud(node: Node) -> bool:
    return "CLOUD" in node.native_state.split("+")


def _is_usable(contract: SlurmContract, name: str) -> bool:
    program = contract.programs.get(name, PowerProgram(""))
    return bool(program.text) and not program.problem
