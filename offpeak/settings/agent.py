"""The settings of the agent, of the schedulers and machines that it talks with, and of its status page."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import (
    BOOL,
    DURATION,
    NAMES,
    PATH,
    POWER,
    TEXT,
    choice,
    choice_or_registered,
    row,
    whole_number,
)

WINDOW_POLICIES = "offpeak.window_policies"
"""The group of entry points of own queue policies."""

BUILT_IN_QUEUE_POLICIES = ("greedy", "knapsack", "plan", "off")


@dataclass(frozen=True)
class AgentSettings:
    """What the agent may do, to which nodes, and its limits."""

    mode: str = row(
        choice("shadow", "advise", "active"),
        "shadow: record decisions only; advise: also carry out admins' orders, and write into job comments what "
        "would happen; active: also carry out the agent's decisions.",
        default="shadow",
    )
    scheduler: str | None = row(
        choice("slurm", "torque", "openpbs", "simulated"),
        "Scheduler of the cluster; simulated is that of `offpeak demo`; when not set: the one found on this machine.",
        example="slurm",
    )
    partition_modes: tuple[str, ...] | None = row(
        NAMES,
        "Modes of single partitions; for several partitions together the most restrictive one applies.",
        example=("debug=shadow", "long=advise"),
    )
    cycle_s: int = row(DURATION, "Interval at which the agent reads queue and nodes, and decides.", default="30s")
    queue: str = row(
        choice_or_registered(WINDOW_POLICIES, "the name of a policy of your own", *BUILT_IN_QUEUE_POLICIES),
        "Policy that orders the pending jobs of a window; plan: in the order of `offpeak plan`; off: leave the order "
        "unchanged.",
        default="greedy",
    )
    allow_own_policies: bool = row(
        BOOL,
        "Let a policy of your own change the order of the queue; without it, its order is only recorded, as in mode "
        "shadow.",
        default=False,
    )
    longest_delay_s: int = row(
        DURATION, "Longest delay that a job's owner may permit; 0s: do not delay jobs.", default="3d", unit="per job"
    )
    deadline_wait_percent: int = row(
        whole_number(50, 99),
        "Share of jobs that wait no longer than the time which the agent leaves for the queue before a deadline.",
        default=90,
        unit="%",
    )
    capacity: str = row(
        TEXT,
        "Capacity policy that puts nodes to sleep, such as timeout:10min or forecast:1h; always-on: no node sleeps.",
        default="timeout:10min",
        flag="--agent-capacity",
    )
    limit_capacity: bool = row(
        BOOL,
        "Offer jobs only as many nodes as the capacity policy decides (ols, profile, two-level, planned, "
        "forecast-late): the other nodes are closed to jobs. Without it, the scheduler wakes sleeping nodes for any "
        "job.",
        default=False,
    )
    trial: str | None = row(
        TEXT,
        "Name of a trial of on/off days, drawn once and begun at the next midnight; another name begins another trial; "
        "when not set: no lever is ever off.",
        example="winter",
    )
    trial_lever: str = row(
        choice("sleep", "order", "both"),
        "What is off on drawn days: sleep: all nodes stay awake; order: the queue has the site's own order; both: each "
        "on days of its own.",
        default="sleep",
    )
    trial_partitions: tuple[str, ...] | None = row(
        NAMES,
        "Partitions with on/off days of their own, which share no nodes with other partitions; when not set: the days "
        "are those of the whole cluster.",
        example=("batch", "gpu"),
    )
    trial_days: int = row(
        whole_number(14, 730), "Length of the trial; half of the days are off.", default=56, unit="days"
    )
    trial_block: str = row(
        choice("day", "half-day"), "What is drawn: whole days, or halves from midnight and noon.", default="day"
    )
    socket: Path = row(
        PATH,
        "Socket on which the agent answers `offpeak why`, `queue` and `status`, and receives the scheduler's "
        "requests for nodes.",
        default="/run/offpeak/agent.sock",
    )
    operators: str | None = row(
        TEXT, "Unix group whose members see all jobs and may hold and release nodes.", example="wheel"
    )
    viewers: str | None = row(
        TEXT,
        "Unix group whose members see all jobs and give no orders; others, except operators and root, see their own "
        "jobs.",
        example="offpeak-viewers",
    )
    nodes: str | None = row(
        TEXT, "Nodes that the agent may switch; when not set: none.", example="n[001-064]", flag="--agent-nodes"
    )
    state_folder: Path = row(
        PATH, "Folder on a local disk for state and the lock that prevents a second agent.", default="/var/lib/offpeak"
    )
    fresh_s: int = row(DURATION, "Maximum age of a node's state: an older state permits no order.", default="2min")
    nodes_per_sweep: int = row(
        whole_number(1), "Maximum number of nodes put to sleep or switched off in one sweep.", default=10, unit="nodes"
    )
    nodes_per_hour: int = row(
        whole_number(1),
        "Maximum number of nodes put to sleep or switched off within an hour.",
        default=60,
        unit="nodes",
    )
    wakes_per_min: int = row(
        whole_number(1),
        "Maximum number of nodes ordered to wake within a minute, and a sixth of it within ten seconds; without an "
        "agent `offpeak-resume` applies this limit.",
        default=120,
        unit="nodes per minute",
    )
    rack_nodes_per_min: int = row(
        whole_number(1),
        "Maximum number of orders within a minute to nodes of one rack or on one PDU.",
        default=4,
        unit="nodes per minute",
    )
    sleep_ramp_w: float | None = row(
        POWER,
        "Maximum decrease of power within a minute by nodes ordered to sleep.",
        example="20kW",
        unit="per minute",
        flag="--agent-sleep-ramp",
    )
    wake_ramp_w: float | None = row(
        POWER,
        "Maximum increase of power within a minute by nodes ordered to wake.",
        example="20kW",
        unit="per minute",
        flag="--agent-wake-ramp",
    )
    cycles_per_day: int = row(
        whole_number(1),
        "Maximum number of times that a node is put to sleep or switched off within a day.",
        default=4,
        unit="per node",
        flag="--agent-cycles-per-day",
    )
    min_on: int = row(
        whole_number(0),
        "Minimum number of these nodes that stay on, not counting nodes held by an admin.",
        default=1,
        unit="nodes",
    )
    breaker_failures: int = row(
        whole_number(1),
        "Number of failures among the latest orders that opens the breaker: no further orders are given.",
        default=5,
        unit="orders",
    )
    breaker_orders: int = row(
        whole_number(1), "Number of latest orders that the breaker counts.", default=20, unit="orders"
    )
    breaker_pause_s: int = row(DURATION, "Time after which an open breaker permits one trial order.", default="15min")
    unknown_percent: int = row(
        whole_number(0, 100),
        "Maximum share of these nodes in an unknown state: above it no node is put to sleep, because the network may "
        "be down.",
        default=30,
        unit="%",
    )
    tries: int = row(
        whole_number(1),
        "Number of consecutive failures after which a node is left to the operator.",
        default=3,
        unit="per node",
    )
    hands_off_s: int = row(
        DURATION,
        "Time for which a node is left alone after a change of its state that offpeak did not order.",
        default="30min",
        unit="per node",
    )
    cut_power: bool = row(
        BOOL,
        "Cut the power of a node that does not follow an ordered shutdown, if its hardware has the sleep depth "
        "hard_off.",
        default=False,
    )

    @property
    def own_policy(self) -> str:
        """The name of the own policy that orders the queue, "" for a built-in policy."""
        return "" if self.queue in BUILT_IN_QUEUE_POLICIES else self.queue

    @property
    def own_policy_is_shadowed(self) -> bool:
        """Whether the order of the own policy is only recorded."""
        return bool(self.own_policy) and not self.allow_own_policies


@dataclass(frozen=True)
class HardwareSettings:
    """The inventory of machines, and time limits for them."""

    inventory: Path = row(PATH, "TOML file of nodes, BMCs, PDUs and logins.", default="/etc/offpeak/inventory.toml")
    timeout_s: int = row(
        DURATION,
        "Time limit for a response of a BMC, PDU or node.",
        default="5s",
        unit="per answer",
        flag="--device-timeout",
    )
    prometheus: str | None = row(
        TEXT,
        "Address of a Prometheus server that scrapes the GPUs of nodes, by the DCGM exporter or the "
        "nvidia_gpu_exporter; when not set: GPUs are metered by ssh.",
        example="http://127.0.0.1:9090",
    )


@dataclass(frozen=True)
class PageSettings:
    """Access to the status page and the metrics."""

    listen: str = row(
        TEXT,
        "Address and port of the status page and the metrics; without a token only loopback is allowed.",
        default="127.0.0.1:8017",
    )
    token_file: Path | None = row(
        PATH,
        "File of mode 0600 with the token that clients of the page must present; when not set: no token is needed.",
        example="/etc/offpeak/page.token",
        flag="--page-token-file",
    )
    certificate: Path | None = row(
        PATH,
        "File of the page's certificate, with those between it and its authority; when not set: the page is served by "
        "http.",
        example="/etc/offpeak/page.crt",
        flag="--page-certificate",
    )
    key: Path | None = row(
        PATH,
        "File of the key of the certificate, without a passphrase; when not set: it is in the file of the certificate.",
        example="/etc/offpeak/page.key",
        flag="--page-key",
    )


@dataclass(frozen=True)
class SlurmSettings:
    """How the agent talks with Slurm."""

    read: str = row(
        choice("text", "json", "rest", "pyslurm"),
        "Source of jobs and nodes: the text of squeue and scontrol, which is the same in all versions; their JSON; "
        "slurmrestd; or pyslurm, if installed for this version.",
        default="text",
        flag="--slurm-read",
    )
    user: str = row(
        TEXT,
        "SlurmUser of slurm.conf, whose programs notify the agent which nodes Slurm needs.",
        default="slurm",
        flag="--slurm-user",
    )
    command: tuple[str, ...] | None = row(
        NAMES,
        "Prefix of scontrol commands, if the agent's user may not change jobs and nodes.",
        example=("sudo", "-n", "-u", "slurm"),
        flag="--slurm-command",
    )
    rest_url: str | None = row(TEXT, "Address of slurmrestd.", example="http://127.0.0.1:6820", flag="--slurm-rest")
    rest_token: Path | None = row(
        PATH,
        "File of mode 0600 with the token for slurmrestd.",
        example="/etc/offpeak/slurm.token",
        flag="--slurm-rest-token",
    )
    timeout_s: int = row(DURATION, "Time limit for a command of Slurm.", default="60s", flag="--slurm-timeout")


@dataclass(frozen=True)
class PbsSettings:
    """How the agent talks with a PBS server."""

    command: tuple[str, ...] | None = row(
        NAMES,
        "Prefix of qalter, pbsnodes and qmgr commands, if the agent's user is not a manager of PBS.",
        example=("sudo", "-n"),
        flag="--pbs-command",
    )
    timeout_s: int = row(DURATION, "Time limit for a command of PBS.", default="60s", flag="--pbs-timeout")
    boot_s: int = row(
        DURATION,
        "Time limit from the order to wake until the node's daemon registers; after it the wake-up counts as failed.",
        default="15min",
        unit="per node",
        flag="--pbs-boot",
    )
    torque_order: str = row(
        choice("auto", "priority", "swap", "none"),
        "Method to reorder jobs of Torque: priority (`qalter -p`), if the scheduler sorts by priority; swap "
        "(`qorder`), if it follows the order of the queue; none; auto: according to sched_config of pbs_sched.",
        default="auto",
    )
    home: Path = row(
        PATH, "Folder of Torque's server that contains sched_priv.", default="/var/spool/torque", flag="--pbs-home"
    )
