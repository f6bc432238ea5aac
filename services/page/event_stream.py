"""The stream of events for browsers: each follower of the page gets the changes in agent and ledger, and the power of
the last day.

The content is split into sections of JSON. One section has the account of savings of today, a week and this month.
"""

import asyncio
import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection

from offpeak.errors import BadInput, BadLedger, OffpeakError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.node_energy import NodeMean, node_means
from offpeak.ledger.records import Record, latest_actions, latest_decisions, states_in
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.account_of_savings import SavingsAccount, account_of, daily_accounts, delays_text
from offpeak.services.accounts.ended_jobs import JobSpan, find_node_runs
from offpeak.services.agent.status import fetch_snapshot, snapshot_json
from offpeak.settings.table import Settings

SHOWN_S = 24 * HOUR_S
STILL_CHANGES_S = 2 * QUARTER_S
"""Readings of a quarter-hour reach the ledger until some time after its end."""
ON, BUSY = "on", "busy"
AWAKE = (BUSY, ON, "unknown")
"""States in which a node draws the same power as without offpeak; BUSY is on, with a job."""


PowerSlot = tuple[Mapping[str, float], float]
"""Of a quarter-hour the power by state [W], and that without offpeak."""


@dataclass
class NodePowerHistory:
    """The quarter-hours of the last day by their first second; settled ones are not read again."""

    slots: dict[int, PowerSlot] = field(default_factory=dict)
    _settled_unix_s: float = 0.0

    def read(self, connection: Connection, now_unix_s: float, idle_w: Mapping[str, float]) -> None:
        """Read the ledger; `idle_w` is the power of each node when it is on and idle."""
        first = (now_unix_s - SHOWN_S) // QUARTER_S * QUARTER_S
        span = TimeRange(max(first, self._settled_unix_s), now_unix_s)
        states, runs = states_in(connection, span), find_node_runs(connection, span)
        new = make_power_slots(node_means(connection, span), states, runs, idle_w)
        self.slots = {at: slot for at, slot in (self.slots | new).items() if at >= first}
        self._settled_unix_s = (now_unix_s - STILL_CHANGES_S) // QUARTER_S * QUARTER_S


def make_power_slots(
    means: Iterable[NodeMean],
    states: Sequence[Record],
    runs: Mapping[str, Sequence[JobSpan]],
    idle_w: Mapping[str, float],
) -> dict[int, PowerSlot]:
    """Return the quarter-hours; a node counts with its state in the middle of each."""
    changes: dict[str, tuple[list[float], list[str]]] = defaultdict(lambda: ([], []))
    for record in states:
        at_s, observed = changes[record["node"]]
        at_s.append(record["at_unix_s"])
        observed.append(record["observed"])
    watts: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    without: dict[int, float] = defaultdict(float)
    for at, node, power_w in means:
        middle_s = at + QUARTER_S / 2
        state = _state_at(changes.get(node), middle_s)
        if state == ON and any(from_s <= middle_s < until_s for from_s, until_s in runs.get(node, ())):
            state = BUSY
        watts[at][state] += power_w
        without[at] += power_w if state in AWAKE else max(power_w, idle_w.get(node, power_w))
    return {at: (dict(by_state), without[at]) for at, by_state in watts.items()}


def _state_at(changes: tuple[list[float], list[str]] | None, unix_s: float) -> str:
    if changes is None:
        return "unknown"
    at_s, observed = changes
    return observed[max(0, bisect_right(at_s, unix_s) - 1)]


def savings_json(account: SavingsAccount) -> dict[str, Any]:
    """Return the account for the page: its sum, its share, and how it is known."""
    levers = [{**asdict(lever), "name": lever.name, "known": lever.known} for lever in account.levers]
    properties = {"share": account.share, "known": account.known, "cost_per_year": account.cost_per_year}
    properties |= {"delays_text": delays_text(account)}
    return {**asdict(account), "levers": levers, **properties}


EVENTS_READ, EVENTS_SENT = 1000, 120
WEEK_S = 6.5 * DAY_S
"""A week begins so long before midnight, wherever a clock was changed in it: its first day begins half a day later."""
POWER_EVERY_S = 60.0
"""The period of reading the past, on the agent's clock."""
CHANGING_FIELDS = {"jobs", "now_unix_s", "first_round_until_unix_s", "last_round_unix_s"}
"""Fields that the section `status` leaves out, because it is sent only when it has changed."""
AHEAD = ("slot_fields", "slots", "prices_until_unix_s", "planned_w")
OWN_SECTIONS = {"published", "nodes", "node_fields", *AHEAD}
"""Keys of a snapshot that the section `status` does not repeat."""

Sections = dict[str, str]


@dataclass
class PageReader:
    """Reads agent and ledger for all clients, and remembers what each has received."""

    settings: Settings
    _jobs_unix_s: float | None = None
    _idle_w: dict[str, float] = field(default_factory=dict)
    _history: NodePowerHistory = field(default_factory=NodePowerHistory)
    _power_unix_s: float = 0.0
    _today: dict[str, Any] = field(default_factory=dict)
    _summed_today: dict[str, Any] | None = None
    _since_unix_s: dict[str, float] = field(default_factory=dict)
    _last: dict[str, Any] = field(default_factory=dict)

    def read(self) -> Sections:
        """Return the sections that may have changed, by name. It waits for agent and disk, and never raises."""
        try:
            snapshot = fetch_snapshot(self.settings.agent.socket, jobs_seen_unix_s=self._jobs_unix_s)
        except OffpeakError as problem:
            silent = {"silent": str(problem), "hint": problem.hint, **self._last}
            return {"status": _text(silent), **self._of_ledger(time.time())}
        self._idle_w = {node.node: node.idle_watts for node in snapshot.nodes if node.idle_watts is not None}
        published = snapshot.published
        self._today = {"day": [savings_json(each) for each in (published.saved_today, published.shadow_today)]}
        self._since_unix_s = {"week": snapshot.day_unix_s - WEEK_S, "month": snapshot.month_unix_s}
        of_ledger = self._of_ledger(published.at_unix_s if published.now_unix_s is None else published.now_unix_s)
        values = snapshot_json(snapshot)
        status = {name: value for name, value in values["published"].items() if name not in CHANGING_FIELDS}
        status |= {name: value for name, value in values.items() if name not in OWN_SECTIONS}
        self._last = {name: status[name] for name in ("zone", "at_unix_s")}
        sections = {
            "status": _text(status),
            "prices": _text({name: values[name] for name in AHEAD}),
            "nodes": _text({"fields": values["node_fields"], "rows": values["nodes"]}),
        }
        if not snapshot.jobs_left_out:
            self._jobs_unix_s = snapshot.published.at_unix_s
            sections["jobs"] = _text(values["published"]["jobs"])
        return {**sections, **of_ledger}

    def _of_ledger(self, now_unix_s: float) -> Sections:
        try:
            with open_ledger(self.settings.ledger.url) as connection:
                return self._read(connection, now_unix_s)
        except BadLedger as problem:
            return {"events": _text({"trouble": f"{problem}; {problem.hint}", "rows": []})}

    def _read(self, connection: Connection, now_unix_s: float) -> Sections:
        sections = {"events": _text({"trouble": "", "rows": _events(connection)})}
        if abs(now_unix_s - self._power_unix_s) >= POWER_EVERY_S:
            self._power_unix_s = now_unix_s
            self._history.read(connection, now_unix_s, self._idle_w)
            sections["power"] = _text([[at, *slot] for at, slot in sorted(self._history.slots.items())])
        if self._since_unix_s and self._today != self._summed_today:
            # The bill of a month reads all its quarter-hours; it changes when the agent books.
            self._summed_today = self._today
            try:
                sections["saved"] = _text(self._today | self._savings(connection, now_unix_s))
            except BadInput as problem:
                sections["saved"] = _text(self._today | {"trouble": str(problem)})
        return sections

    def _savings(self, connection: Connection, now_unix_s: float) -> dict[str, Any]:
        """Return the accounts of week, month and each day, real and in shadow. Raises BadInput for two currencies."""
        accounts: dict[str, Any] = {"days": [], "since": self._since_unix_s}
        for is_shadow in (False, True):
            for name, since_s in self._since_unix_s.items():
                span = TimeRange(since_s, max(now_unix_s, since_s + 1.0))
                accounts.setdefault(name, []).append(savings_json(account_of(connection, span, is_shadow=is_shadow)))
            span = TimeRange(min(self._since_unix_s.values()), now_unix_s)
            days = daily_accounts(connection, span, is_shadow=is_shadow)
            accounts["days"] += [{**savings_json(each), "until_unix_s": end_s} for end_s, each in days.items()]
        return accounts


def _events(connection: Connection) -> list[list[Any]]:
    """Return what was decided and done of late, newest first, one line for all subjects of a quarter-hour.

    A line has its latest time, order, result, user, reason and subjects. A decision that led to an action is left out.
    """
    actions = latest_actions(connection, most=EVENTS_READ)
    acted_s = {row["subject"]: row["at_unix_s"] for row in reversed(actions)}
    rows = [
        (row["at_unix_s"], row["decided"], "decided", "offpeak", row["reason"], row["subject"])
        for row in latest_decisions(connection, most=EVENTS_READ)
        if row["at_unix_s"] > acted_s.get(row["subject"], 0.0)
    ]
    rows += [(row["at_unix_s"], row["order"], _result(row), row["by"], _why(row), row["subject"]) for row in actions]
    lines: dict[tuple[Any, ...], list[Any]] = {}
    for at_s, what, result, by, why, subject in sorted(rows, reverse=True):
        lines.setdefault((at_s // QUARTER_S, what, result, by), [at_s, what, result, by, why, []])[-1].append(subject)
    return list(lines.values())[:EVENTS_SENT]


def _result(action: Mapping[str, Any]) -> str:
    return f"{action['result']} by {action['rule']}" if action["rule"] else str(action["result"])


def _why(action: Mapping[str, Any]) -> str:
    # Of an order that was done the device says no more than that.
    return "; ".join(filter(None, (action["reason"], "" if action["result"] == "done" else action["said"])))


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


READ_EVERY_S = 2.0
ALIVE_EVERY_S = 15.0
MOST_WAITING = 16
"""A client that is so many updates behind is disconnected; the browser reconnects and gets everything."""
MOST_FOLLOWERS = 32

ALIVE = ": alive\n\n"


class Followers:
    """Gives followers all sections once, then those that change, by one function from `make` for all."""

    def __init__(self, make: Callable[[], Callable[[], Sections]], *, every_s: float = READ_EVERY_S) -> None:
        self._make, self._every_s = make, every_s
        self._queues: set[asyncio.Queue[Sections]] = set()
        self._latest: Sections = {}
        self._reading: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """The number of followers."""
        return len(self._queues)

    async def follow(self) -> AsyncIterator[str]:
        """Give server-sent events until the follower disconnects."""
        queue: asyncio.Queue[Sections] = asyncio.Queue(MOST_WAITING)
        self._queues.add(queue)
        if self._latest:
            queue.put_nowait(self._latest)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        try:
            async for text in self._events(queue):
                yield text
        finally:
            self._queues.discard(queue)

    async def _events(self, queue: "asyncio.Queue[Sections]") -> AsyncIterator[str]:
        yield ALIVE
        while queue in self._queues:
            try:
                async with asyncio.timeout(ALIVE_EVERY_S):
                    sections = await queue.get()
            except TimeoutError:
                yield ALIVE
            else:
                yield "".join(f"event: {name}\ndata: {text}\n\n" for name, text in sections.items())

    async def _read(self) -> None:
        """Read the sections while there are followers, then forget them."""
        read = self._make()
        try:
            while self._queues:
                sections = await asyncio.to_thread(read)
                changed = {name: text for name, text in sections.items() if self._latest.get(name) != text}
                self._latest |= changed
                if changed:
                    self._publish(changed)
                await asyncio.sleep(self._every_s)
        finally:
            self._latest, self._reading = {}, None

    def _publish(self, changed: Sections) -> None:
        for queue in tuple(self._queues):
            with suppress(asyncio.QueueFull):
                queue.put_nowait(changed)
                continue
            self._queues.discard(queue)
