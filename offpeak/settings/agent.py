"""The settings of the agent, of the machines that it switches, and of its status page."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import BOOL, DURATION, NAMES, PATH, POWER, TEXT, choice, row, whole_number


@dataclass(frozen=True)
class AgentSettings:
    """What the agent may do to which nodes, and how much of it at once."""

    mode: str = row(
        choice("shadow", "advise", "active"),
        "--mode",
        "shadow: nothing is done, everything is recorded; advise: what an admin orders by hand is done, and jobs are"
        " told what would be; active: what the agent decides is done too.",
        default="shadow",
    )
    scheduler: str | None = row(
        choice("slurm", "torque", "openpbs", "simulated"),
        "--scheduler",
        "Which scheduler the cluster has, simulated being the one of `offpeak demo`; when not set: the one that is"
        " found on this machine.",
        example="slurm",
    )
    partition_modes: tuple[str, ...] | None = row(
        NAMES,
        "--partition-modes",
        "Partitions with a mode of their own; what concerns several goes by the least open of theirs.",
        example=("debug=shadow", "long=advise"),
    )
    cycle_s: int = row(
        DURATION,
        "--cycle",
        "How often the agent looks at queue and nodes, and decides.",
        default="30s",
    )
    queue: str = row(
        choice("greedy", "knapsack", "plan", "off"),
        "--queue",
        "How the pending jobs of a window are put in another order; plan: as `offpeak plan` shows; off: they are left"
        " as they are.",
        default="greedy",
    )
    longest_delay_s: int = row(
        DURATION,
        "--longest-delay",
        "The longest delay that a job's owner may grant; 0s: no job is ever delayed for a cheap hour.",
        default="3d",
        unit="per job",
    )
    capacity: str = row(
        TEXT,
        "--agent-capacity",
        "The capacity policy by which nodes sleep, such as timeout:10min or forecast:1h; always-on: none does.",
        default="timeout:10min",
    )
    socket: Path = row(
        PATH,
        "--socket",
        "Where the agent answers `offpeak why`, `queue` and `status`, and hears of nodes that the scheduler wants up.",
        default="/run/offpeak/agent.sock",
    )
    operators: str | None = row(
        TEXT,
        "--operators",
        "Unix group whose members see everybody's jobs and may hold and release nodes.",
        example="wheel",
    )
    viewers: str | None = row(
        TEXT,
        "--viewers",
        "Unix group whose members see everybody's jobs and order nothing; others, but for operators and root, see"
        " their own.",
        example="offpeak-viewers",
    )
    nodes: str | None = row(
        TEXT,
        "--agent-nodes",
        "Nodes that may be switched; when not set: none.",
        example="n[001-064]",
    )
    state_folder: Path = row(
        PATH,
        "--state-folder",
        "Folder, on a local disk, whose lock lets one agent run and no second.",
        default="/var/lib/offpeak",
    )
    fresh_s: int = row(
        DURATION,
        "--fresh",
        "A node whose state was read longer ago than this is left as it is.",
        default="2min",
    )
    nodes_per_sweep: int = row(
        whole_number(1),
        "--nodes-per-sweep",
        "Nodes that may be put to sleep or switched off in one sweep.",
        default=10,
        unit="nodes",
    )
    nodes_per_hour: int = row(
        whole_number(1),
        "--nodes-per-hour",
        "Nodes that may be put to sleep or switched off within an hour.",
        default=60,
        unit="nodes",
    )
    wakes_per_min: int = row(
        whole_number(1),
        "--wakes-per-min",
        "Nodes that may be told to wake within a minute, a sixth of them within ten seconds; `offpeak-resume`"
        " keeps to it while no agent runs.",
        default=120,
        unit="nodes per minute",
    )
    rack_nodes_per_min: int = row(
        whole_number(1),
        "--rack-nodes-per-min",
        "Nodes of one rack, or on one PDU, that may be told anything within a minute.",
        default=4,
        unit="nodes per minute",
    )
    sleep_ramp_w: float | None = row(
        POWER,
        "--agent-sleep-ramp",
        "How much the draw may fall within a minute by nodes that are told to sleep.",
        example="20kW",
        unit="per minute",
    )
    wake_ramp_w: float | None = row(
        POWER,
        "--agent-wake-ramp",
        "How much the draw may rise within a minute by nodes that are told to wake.",
        example="20kW",
        unit="per minute",
    )
    cycles_per_day: int = row(
        whole_number(1),
        "--agent-cycles-per-day",
        "How often one node may be put to sleep or switched off within a day.",
        default=4,
        unit="per node",
    )
    min_on: int = row(
        whole_number(0),
        "--min-on",
        "So many of these nodes stay on, those that an admin holds not counted.",
        default=1,
        unit="nodes",
    )
    breaker_failures: int = row(
        whole_number(1),
        "--breaker-failures",
        "So many failures among the latest orders, and nothing more is ordered.",
        default=5,
        unit="orders",
    )
    breaker_orders: int = row(
        whole_number(1),
        "--breaker-orders",
        "How many of the latest orders are looked at for that.",
        default=20,
        unit="orders",
    )
    breaker_pause_s: int = row(
        DURATION,
        "--breaker-pause",
        "After such failures one order is tried again after this long.",
        default="15min",
    )
    unknown_percent: int = row(
        whole_number(0, 100),
        "--unknown-percent",
        "If the state of more of these nodes than this is not known, none is put to sleep: the network may be down.",
        default=30,
        unit="%",
    )
    tries: int = row(
        whole_number(1),
        "--tries",
        "A node that has failed so many times in a row is handed to the operator.",
        default=3,
        unit="per node",
    )
    hands_off_s: int = row(
        DURATION,
        "--hands-off",
        "A node whose state changed and nobody here ordered it is left alone for so long: somebody works on it.",
        default="30min",
        unit="per node",
    )
    cut_power: bool = row(
        BOOL,
        "--cut-power",
        "Cut the power of a node that does not follow an ordered shutdown, where its hardware has the rung hard_off.",
        default=False,
    )


@dataclass(frozen=True)
class HardwareSettings:
    """Which machines there are, and how patient to be with them."""

    inventory: Path = row(
        PATH,
        "--inventory",
        "TOML file of nodes, BMCs, PDUs and logins.",
        default="/etc/offpeak/inventory.toml",
    )
    timeout_s: int = row(
        DURATION,
        "--device-timeout",
        "A BMC, PDU or node that has not answered for so long counts as silent.",
        default="5s",
        unit="per answer",
    )


@dataclass(frozen=True)
class PageSettings:
    """Who can open the page and read the metrics."""

    listen: str = row(
        TEXT,
        "--listen",
        "Address and port of the status page and the metrics; without a token on loopback only.",
        default="127.0.0.1:8017",
    )
    token_file: Path | None = row(
        PATH,
        "--page-token-file",
        "File of mode 0600 with the token that whoever opens the page has to show; when not set: nobody has to.",
        example="/etc/offpeak/page.token",
    )
