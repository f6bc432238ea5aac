"""On/off days: the agent draws them into the ledger, has a lever off in its blocks, and measures once a day.

A lever that is off is a change of the settings in force: `sleep` keeps all nodes awake, `order` leaves the queue in the
site's own order and delays no job. So the loops undo what they did before, through the doors and within their limits.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from offpeak.display import minute_text
from offpeak.door.effect import Mode
from offpeak.ledger.database import query_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import TrialBlock
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.step_series import Series
from offpeak.plugin.queue_hook.facts import OFF
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.live.cluster_snapshot import all_awake
from offpeak.predictors.feeds.feed import fetched
from offpeak.predictors.feeds.port import Window
from offpeak.predictors.feeds.registry import temperature_feed
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP
from offpeak.services.accounts.trials import (
    RESULTS,
    STORED_RESULTS,
    TrialInputs,
    draw_blocks,
    find_blocks,
    measure_trial,
)
from offpeak.services.agent.loop import Loop, ProblemLog
from offpeak.services.agent.observer import SLOW_S, Observer
from offpeak.services.agent.site_context import PartitionModes, SiteContext
from offpeak.settings.table import Settings

NOTICE_S = HOUR_S
"""The shortest time from the draw to the first block."""
OBEYED = "trial obeyed in "
EVERY_S = 300.0
AFTERWARDS_S = 14 * DAY_S
"""Jobs that ran at the end of the trial may end so much later."""


@dataclass
class TrialLoop(Loop):
    """Keeps the trial of the settings. `blocks` are its drawn blocks, none before the ledger was read."""

    site: Callable[[], SiteContext]
    modes: Callable[[], PartitionModes]
    observer: Observer
    is_capped: Callable[[], bool]
    ledger: Ledger
    problem_log: ProblemLog
    clock: Callable[[], float]
    steady: Callable[[], float]
    blocks: tuple[TrialBlock, ...] = ()
    _obeyed_s: dict[float, float] = field(default_factory=dict)
    _last: Instant | None = None
    _measured_on: date | None = None

    name = "on/off days"
    fetches = True
    period_s = EVERY_S
    least_pause_s = SLOW_S

    def load(self) -> None:
        """Read the trial's blocks from the ledger, or draw and write them. Waits for it; raises CannotWrite."""
        site, now_s, why = self.site(), self.clock(), self._why_not_drawn()
        agent = site.settings.agent
        self._measured_on, self._obeyed_s, self.blocks = None, {}, ()
        if not agent.trial:
            self.problem_log.report("trial", None)
            return
        obeyed_s = json.loads(self.ledger.remembered(f"{OBEYED}{agent.trial}") or "{}")
        self._obeyed_s = {float(begin): seconds for begin, seconds in obeyed_s.items()}
        first = datetime.fromtimestamp(now_s + NOTICE_S, site.zone).date() + timedelta(days=1)
        drawn = draw_blocks(agent, secrets.token_hex(8), first=first, zone=site.zone, drawn_unix_s=now_s)
        self.blocks = self.ledger.draw_trial(drawn, may_begin=not why)
        problem = f"trial {agent.trial} was drawn with other settings, which stay; give another trial another name"
        if not self.blocks:
            problem = f"trial {agent.trial} is not drawn: {why}"
        elif _shape(drawn) == _shape(self.blocks):
            problem = ""
        self.problem_log.report("trial", problem or None)

    def _why_not_drawn(self) -> str:
        partitions, view = self.site().settings.agent.trial_partitions or (), self.observer.latest
        if partitions and view is None:
            return "the partitions of the nodes are not known yet"
        for partition in partitions:
            of_nodes = [node.partitions for node in (view.nodes if view else ()) if partition in node.partitions]
            if not of_nodes:
                return f"trial_partitions: {partition} has no nodes"
            if others := {name for names in of_nodes for name in names} - {partition}:
                return f"trial_partitions: {partition} shares nodes with {', '.join(sorted(others))}"
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """A text for each lever that is off now."""
        off = find_blocks(self.blocks, self.clock(), is_on=False)
        until = [minute_text(block.until_unix_s, self.site().zone) for block in off]
        return tuple(f"{each.name} is off until {at}: on/off days" for each, at in zip(off, until, strict=True))

    def with_levers_off(self, settings: Settings, *, is_capped: bool) -> Settings:
        """Return the settings in force now. While a cap on power holds, or comes soon, nodes may sleep."""
        off = {block.name for block in find_blocks(self.blocks, self.clock(), is_on=False)}
        agent, capacity = settings.agent, settings.capacity
        if SLEEP in off and not is_capped:
            agent, capacity = all_awake(agent, capacity)
        if ORDER in off:
            agent = replace(agent, queue=OFF, longest_delay_s=0)
        return replace(settings, agent=agent, capacity=capacity)

    def find_partitions_off(self, lever: str, *, is_capped: bool) -> frozenset[str]:
        """Return the partitions in which the lever is off now; none while a cap on power holds, or comes soon."""
        off = () if is_capped else find_blocks(self.blocks, self.clock(), is_on=False)
        return frozenset(block.partition for block in off if block.lever == lever and block.partition)

    async def round(self) -> None:
        """Count the time in which the agent obeyed, and measure once a day. Raises BadLedger, BadInput."""
        site, now, last = self.site(), Instant(self.steady(), self.clock()), self._last
        self._last, now_s = now, now.unix_s
        partitions = site.settings.agent.trial_partitions or ()
        if not self.blocks and partitions:
            await asyncio.to_thread(self.load)
        if not self.blocks:
            return
        block = next(iter(find_blocks(self.blocks, now_s)), None)
        is_obeyed = self.modes().of(partitions) is Mode.ACTIVE and not self.is_capped()
        if block and is_obeyed and last is not None:
            # A clock that was set counts only the time that has passed.
            passed_s = max(min(now_s - block.from_unix_s, now.monotonic_s - last.monotonic_s), 0.0)
            self._obeyed_s[block.from_unix_s] = self._obeyed_s.get(block.from_unix_s, 0.0) + passed_s
            self.ledger.remember(f"{OBEYED}{block.trial}", json.dumps(self._obeyed_s))
        today = datetime.fromtimestamp(now_s, site.zone).date()
        # A reload may take the trial away while its result is computed.
        trial = self.blocks[0].trial
        ended = self.blocks[0].until_unix_s <= now_s < self.blocks[-1].until_unix_s + AFTERWARDS_S
        if ended and today != self._measured_on:
            outside = await fetched(lambda: self._read_temperature(int(now_s)))
            nodes = self.observer.latest.nodes if self.observer.latest else ()
            nodes_of = {
                partition: frozenset(node.name for node in nodes if partition in node.partitions)
                for partition in {block.partition for block in self.blocks} - {""}
            }
            inputs = TrialInputs(now_s, site.zone, self._obeyed_s, outside, nodes_of)
            url, blocks = self.ledger.settings.url, self.blocks
            results = await asyncio.to_thread(lambda: query_ledger(url, measure_trial, blocks, inputs))
            self.ledger.remember(f"{RESULTS}{trial}", STORED_RESULTS.dump_json(results).decode())
            self._measured_on = today

    def _read_temperature(self, now_s: int) -> Series | None:
        feeds = self.site().settings.feeds
        feed = temperature_feed(feeds) if feeds.temperature else None
        return feed.known(Window(int(self.blocks[0].from_unix_s), now_s), now_s).series if feed else None


def _shape(blocks: Sequence[TrialBlock]) -> tuple[int, int, frozenset[str]]:
    """Return the days, the blocks, and the levers with the partitions of a trial."""
    days = round((blocks[-1].until_unix_s - blocks[0].from_unix_s) / DAY_S)
    return days, len(blocks), frozenset(each.name for each in blocks)
