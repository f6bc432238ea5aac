"""A whole cycle of the agent's power loop over 1,000 nodes: decisions, polls, orders and records. BMCs answer at
once.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.bars import Measured
from benchmarks.power_loop import NAMES, NODES, PENDING, RUNNING, snapshot_of
from offpeak.door.door import Confirm
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeChange, NodeOrder, PowerState
from offpeak.plugin.scheduler.port import NodeUses, Ranking, RequeuePermit, SchedulerTraits, SchedulerView
from offpeak.power.drivers.port import PowerDriver, PowerObservation, confirm_at_once
from offpeak.power.lifecycle.sweep import NodePoller
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.site_context import SiteContext, make_site_context
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings

ROUNDS = 5
INVENTORY = """\
[credentials.bmc]
user = "admin"
password_file = "bmc.password"
[hardware.compute]
driver = "ipmi"
credential = "bmc"
node_class = "server"
soft_off = {{ wake = ["bmc"], enter_timeout = "10min", wake_timeout = "10min" }}
[[machines]]
nodes = "{nodes}"
hardware = "compute"
bmc = "{bmcs}"
"""


@dataclass
class AnswersAtOnce:
    """A BMC that knows its node's state and follows no order."""

    state: PowerState
    name: str = "ipmi"
    orders: frozenset[NodeOrder] = frozenset(NodeOrder)

    async def query(self) -> PowerObservation:
        """Return the state."""
        return PowerObservation(self.state, time.time())

    async def send(self, _order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Only await the confirmation."""
        (await confirm())()

    async def identity(self) -> str | None:
        """Return nobody."""
        return None

    async def close(self) -> None:
        """Do nothing."""


class SaysTheSame:
    """A scheduler whose jobs and nodes do not change, and that accepts all orders."""

    changes_lists = True

    def traits(self) -> SchedulerTraits:
        """Return traits of a site whose nodes may sleep."""
        return SchedulerTraits("slurm", "22.05", Ranking.VALUE, True, 600, False)

    def view(self) -> SchedulerView:
        """Return the current view."""
        return snapshot_of(int(time.time())).view

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        """Return that they are free."""
        return dict.fromkeys(nodes, "")

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:  # noqa: ARG002
        """Return that none may be requeued."""
        return {}

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def requeue(self, names: Sequence[str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:  # noqa: ARG002
        """Do nothing."""
        return {}


def power_cycle_benchmarks() -> Iterator[Measured]:
    """Measure cycles after the first, which takes up the nodes."""
    with TemporaryDirectory() as name:
        first_s, later_s = asyncio.run(_cycles(Path(name)))
    data = f"{NODES:,} nodes, {RUNNING + PENDING:,} jobs, neither scheduler nor BMCs"
    yield Measured("a whole cycle of the power loop, active", median(later_s), "s", 1.0, False, data)
    yield Measured("the first after a start", first_s, "s", float("inf"), False, data)


async def _cycles(folder: Path) -> tuple[float, list[float]]:
    parts = _parts(folder)
    ledger = Ledger(parts.settings.ledger)
    ledger.ready()
    agent = SiteAgent(parts, ledger, ProblemLog())
    taken = []
    for _ in range(ROUNDS + 1):
        begin_s = time.perf_counter()
        await agent.power_loop.round()
        taken.append(time.perf_counter() - begin_s)
        # So that the next cycle queries again.
        agent.observer.forget()
    await agent.close()
    return taken[0], taken[1:]


def _parts(folder: Path) -> SiteContext:
    (folder / "bmc.password").touch(mode=0o600)
    (folder / "bmc.password").write_text("secret\n")
    inventory = folder / "inventory.toml"
    bmcs = ",".join(f"127.{number // 250 + 1}.0.{number % 250 + 1}" for number in range(NODES))
    inventory.write_text(INVENTORY.format(nodes=f"n[0000-{NODES - 1:04}]", bmcs=bmcs))
    agent = AgentSettings(mode="active", capacity="ols:1h", nodes=f"n[0000-{NODES - 1:04}]", state_folder=folder)
    ledger = LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}")
    parts = make_site_context(Settings(agent=agent, ledger=ledger, hardware=HardwareSettings(inventory=inventory)))
    asleep = set(NAMES[NODES - 100 :])
    states = {name: PowerState.OFF if name in asleep else PowerState.ON for name in NAMES}
    drivers: dict[str, PowerDriver] = {name: AnswersAtOnce(state) for name, state in states.items()}
    return replace(parts, scheduler=SaysTheSame(), poller=NodePoller(parts.machines, drivers))
