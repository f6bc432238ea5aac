"""One look at agent and ledger for the page: sections of JSON, each sent when it has changed."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from offpeak.errors import BadLedger, OffpeakError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import latest_actions, latest_decisions, savings_in
from offpeak.model.local_time import TimeRange
from offpeak.settings.table import Settings
from power.agent.ask_agent import ask_picture
from ui.page.power_history import PowerHistory
from ui.page.saved import month_of, saved_said

EVENTS = 60
POWER_EVERY_S = 60.0
"""The past is read so often, on the agent's clock."""
OF_EACH_LOOK = {"jobs", "now_unix_s", "first_round_until_unix_s"}
"""What is left out of the section `status`, which is sent when it has changed."""
ONE_OF = {"published", "nodes", "slots", "node_fields", "slot_fields", "prices_until_unix_s"}

Sections = dict[str, str]
Ask = Callable[[float | None], dict[str, Any]]


@dataclass
class Looker:
    """Looks for those who follow; what it remembers saves the agent and the ledger from being asked twice."""

    settings: Settings
    _jobs_unix_s: float | None = None
    _idle_w: dict[str, float] = field(default_factory=dict)
    _history: PowerHistory = field(default_factory=PowerHistory)
    _power_unix_s: float = 0.0
    _today: dict[str, Any] = field(default_factory=dict)
    _month_unix_s: float | None = None

    def look(self) -> Sections:
        """Return all sections that there is something new of, by name. It waits, for agent and disk; never raises."""
        try:
            picture = ask_picture(self.settings.agent.socket, jobs_seen_unix_s=self._jobs_unix_s)
        except OffpeakError as problem:
            silent = {"silent": str(problem), "hint": problem.hint}
            return {"status": _text(silent), **self._of_ledger(time.time())}
        said = picture["published"]
        self._idle_w = _idle_w(picture)
        self._month_unix_s, self._today = picture["month_unix_s"], saved_said(said["saved_today"])
        of_ledger = self._of_ledger(said["at_unix_s"])
        return {**self._of_agent(picture), **of_ledger}

    def _of_agent(self, picture: Mapping[str, Any]) -> Sections:
        said = picture["published"]
        sections = {
            "status": _text({name: each for name, each in said.items() if name not in OF_EACH_LOOK} | _rest(picture)),
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
            sections["saved"] = _text({"today": self._today, "month": month_of(days, self._today)})
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
    return {name: each for name, each in picture.items() if name not in ONE_OF}


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
