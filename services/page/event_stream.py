"""The stream of events for browsers: each follower of the page gets what has changed in agent and ledger.

What is read is split into sections of JSON. One section has the savings of today and of this month, and how much of
them was measured.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from offpeak.errors import BadLedger, OffpeakError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import latest_actions, latest_decisions, savings_in
from offpeak.model.time_range import TimeRange
from offpeak.settings.table import Settings
from services.agent.client import fetch_snapshot
from services.page.power_history import NodePowerHistory

SavingsJson = dict[str, Any]
SHARE = re.compile(r"(\d+)% measured")


def today_savings(said: Mapping[str, Any]) -> SavingsJson:
    """Return the agent's figure of today."""
    return {name: said.get(name) for name in ("energy_j", "cost", "currency")} | {
        "known": basis_of_saving(said.get("basis"))
    }


def month_savings(days: Sequence[Mapping[str, Any]], today: Mapping[str, Any]) -> SavingsJson:
    """Return the days of a month that are over, as the ledger has them, and today; no cost where one has none."""
    each = [_day(day) for day in days]
    if today.get("energy_j") is not None:
        each.append(dict(today))
    if not each:
        return {"energy_j": None, "cost": None, "currency": "", "known": "", "days": 0}
    currencies, costs = {day["currency"] for day in each}, [day["cost"] for day in each]
    cost = None if None in costs or len(currencies) > 1 else sum(costs)
    known = {day["known"] for day in each}
    return {
        "energy_j": sum(day["energy_j"] for day in each),
        "cost": cost,
        "currency": currencies.pop() if len(currencies) == 1 else "",
        "known": known.pop() if len(known) == 1 else "partly measured",
        "days": len(each),
    }


def basis_of_saving(basis: str | None) -> str:
    """Return "measured", "modelled" or "partly measured", from what stands beside a saving; "" for nothing."""
    found = SHARE.search(basis or "")
    if not found:
        return ""
    return {"100": "measured", "0": "modelled"}.get(found[1], "partly measured")


def _day(row: Mapping[str, Any]) -> SavingsJson:
    cost = None if row["cost"] is None or row["baseline_cost"] is None else row["baseline_cost"] - row["cost"]
    energy_j = row["baseline_energy_j"] - row["energy_j"]
    return {"energy_j": energy_j, "cost": cost, "currency": row["currency"], "known": basis_of_saving(row["basis"])}


EVENTS = 60
POWER_EVERY_S = 60.0
"""The past is read so often, on the agent's clock."""
CHANGING_FIELDS = {"jobs", "now_unix_s", "first_round_until_unix_s"}
"""What is left out of the section `status`, which is sent when it has changed."""
OWN_SECTIONS = {"published", "nodes", "slots", "node_fields", "slot_fields", "prices_until_unix_s"}

Sections = dict[str, str]
FetchSnapshot = Callable[[float | None], dict[str, Any]]


@dataclass
class PageReader:
    """Looks for those who follow; what it remembers saves the agent and the ledger from being asked twice."""

    settings: Settings
    _jobs_unix_s: float | None = None
    _idle_w: dict[str, float] = field(default_factory=dict)
    _history: NodePowerHistory = field(default_factory=NodePowerHistory)
    _power_unix_s: float = 0.0
    _today: dict[str, Any] = field(default_factory=dict)
    _month_unix_s: float | None = None

    def look(self) -> Sections:
        """Return all sections that there is something new of, by name. It waits, for agent and disk; never raises."""
        try:
            picture = fetch_snapshot(self.settings.agent.socket, jobs_seen_unix_s=self._jobs_unix_s)
        except OffpeakError as problem:
            silent = {"silent": str(problem), "hint": problem.hint}
            return {"status": _text(silent), **self._of_ledger(time.time())}
        said = picture["published"]
        self._idle_w = _idle_w(picture)
        self._month_unix_s, self._today = picture["month_unix_s"], today_savings(said["saved_today"])
        of_ledger = self._of_ledger(said["at_unix_s"])
        return {**self._of_agent(picture), **of_ledger}

    def _of_agent(self, picture: Mapping[str, Any]) -> Sections:
        said = picture["published"]
        sections = {
            "status": _text(
                {name: each for name, each in said.items() if name not in CHANGING_FIELDS} | _rest(picture)
            ),
            "prices": _text({name: picture[name] for name in ("slot_fields", "slots", "prices_until_unix_s")}),
            "nodes": _text({"fields": picture["node_fields"], "rows": picture["nodes"]}),
        }
        if not picture["jobs_left_out"]:
            self._jobs_unix_s = said["at_unix_s"]
            sections["jobs"] = _text(said["jobs"])
        return sections

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
            slots = [
                [at, slot.by_state, slot.without_w, slot.nodes] for at, slot in sorted(self._history.slots.items())
            ]
            sections["power"] = _text(slots)
        if self._month_unix_s is not None:
            days = savings_in(connection, TimeRange(self._month_unix_s, now_unix_s))
            sections["saved"] = _text({"today": self._today, "month": month_savings(days, self._today)})
        return sections


def _events(connection: Connection) -> list[list[Any]]:
    """Return what was decided and done last, newest first: when, of what, what, with which result, by whom and why."""
    decided = [
        [each["at_unix_s"], each["subject"], each["decided"], "decided", "offpeak", each["reason"]]
        for each in latest_decisions(connection, most=EVENTS)
    ]
    done = [
        [each["at_unix_s"], each["subject"], each["order"], _result(each), each["by"], _why(each)]
        for each in latest_actions(connection, most=EVENTS)
    ]
    return sorted(decided + done, key=lambda each: float(each[0]), reverse=True)[:EVENTS]


def _result(action: Mapping[str, Any]) -> str:
    return f"{action['result']} by {action['rule']}" if action["rule"] else str(action["result"])


def _why(action: Mapping[str, Any]) -> str:
    return "; ".join(filter(None, (action["reason"], action["said"])))


def _idle_w(picture: Mapping[str, Any]) -> dict[str, float]:
    fields = picture["node_fields"]
    name, idle = fields.index("node"), fields.index("idle_watts")
    return {row[name]: row[idle] for row in picture["nodes"] if row[idle] is not None}


def _rest(picture: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in picture.items() if name not in OWN_SECTIONS}


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


LOOK_EVERY_S = 2.0
ALIVE_EVERY_S = 15.0
MOST_WAITING = 16
"""Who is so many looks behind is hung up on: the browser connects anew and is sent everything."""
MOST_FOLLOWERS = 32

ALIVE = ": alive\n\n"


class TooManyFollowers(Exception):
    """There is no place for one more."""


class Followers:
    """Gives each follower everything once, and from then on what changes. `make` begins to look, for all of them."""

    def __init__(self, make: Callable[[], Callable[[], Sections]], *, every_s: float = LOOK_EVERY_S) -> None:
        self._make, self._every_s = make, every_s
        self._queues: set[asyncio.Queue[Sections]] = set()
        self._latest: Sections = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._queues)

    async def follow(self) -> AsyncIterator[str]:
        """Give server-sent events until the follower hangs up; TooManyFollow."""
        if self.count >= MOST_FOLLOWERS:
            raise TooManyFollowers
        queue: asyncio.Queue[Sections] = asyncio.Queue(MOST_WAITING)
        self._queues.add(queue)
        if self._latest:
            queue.put_nowait(self._latest)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            async for text in self._told(queue):
                yield text
        finally:
            self._queues.discard(queue)

    async def _told(self, queue: "asyncio.Queue[Sections]") -> AsyncIterator[str]:
        yield ALIVE
        while queue in self._queues:
            try:
                async with asyncio.timeout(ALIVE_EVERY_S):
                    sections = await queue.get()
            except TimeoutError:
                yield ALIVE
            else:
                yield "".join(f"event: {name}\ndata: {text}\n\n" for name, text in sections.items())

    async def _look(self) -> None:
        """Look again and again as long as anybody follows, then forget everything."""
        look = self._make()
        try:
            while self._queues:
                found = await asyncio.to_thread(look)
                changed = {name: text for name, text in found.items() if self._latest.get(name) != text}
                self._latest |= changed
                if changed:
                    self._tell(changed)
                await asyncio.sleep(self._every_s)
        finally:
            self._latest, self._looking = {}, None

    def _tell(self, changed: Sections) -> None:
        for queue in tuple(self._queues):
            with suppress(asyncio.QueueFull):
                queue.put_nowait(changed)
                continue
            self._queues.discard(queue)
