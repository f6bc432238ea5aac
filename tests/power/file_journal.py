"""A journal of one line a write, on the disk before it returns: what a process that is killed leaves behind."""

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from memory_journal import may_have_worked

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import Intent, IntentResult, counts_as_last_order
from offpeak.model.orders import parse_order


class FileJournal:
    """Implements offpeak.door.journal.Journal."""

    def __init__(self, path: Path) -> None:
        self._path, self._turn = path, Lock()
        path.touch()

    def acts_for_s(self) -> float:
        """No other program shares the journal."""
        return math.inf

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        with self._turn:
            number = len(self.recent(0)) + 1
            self._write({"intent": number, "effect": asdict(effect), "at": at_unix_s})
        return number

    def write_outcome(self, intent: int, outcome: Outcome, at_unix_s: float) -> None:
        self._write({"outcome_of": intent, "outcome": asdict(outcome), "at": at_unix_s})

    def write_refusal(self, effect: Effect, refusal: Refusal, at_unix_s: float) -> None:
        self._write({"refused": asdict(effect), "refusal": asdict(refusal), "at": at_unix_s})

    def unfinished(self) -> tuple[Intent, ...]:
        return tuple(done.intent for done in self.recent(0) if done.outcome is None)

    def last_orders(self) -> tuple[Intent, ...]:
        sent = [done.intent for done in self.recent(0) if may_have_worked(done)]
        last = {intent.effect.subject: intent for intent in sent if counts_as_last_order(intent.effect)}
        return tuple(last.values())

    def recent(self, since_unix_s: float) -> tuple[IntentResult, ...]:
        done: dict[int, IntentResult] = {}
        for line in map(json.loads, self._path.read_text().splitlines()):
            if number := line.get("intent"):
                pairs = tuple((name, value) for name, value in line["effect"].pop("inputs"))
                fields = line["effect"] | {"order": parse_order(line["effect"]["order"]), "inputs": pairs}
                done[number] = IntentResult(Intent(number, Effect(**fields), line["at"]))
            elif number := line.get("outcome_of"):
                done[number] = IntentResult(done[number].intent, Outcome(**line["outcome"]), line["at"])
        return tuple(result for result in done.values() if result.intent.at_unix_s >= since_unix_s)

    def _write(self, line: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
