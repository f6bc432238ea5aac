"""What the ledger records: the history that `offpeak history` prints, the days and results of `offpeak ledger trial`.

The history holds decisions and actions in one list, newest first.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import typer

from offpeak.display import minute_text, second_text
from offpeak.errors import BadInput
from offpeak.ledger.database import open_ledger
from offpeak.ledger.marks import read_trial
from offpeak.ledger.records import actions_in, decisions_in, last_written_unix_s
from offpeak.machines.node_sets import expand, fold_names
from offpeak.model.orders import NodeChange, NodeOrder
from offpeak.model.time_range import parse_range
from offpeak.model.zones import machine_zone
from offpeak.settings.ledger import LedgerSettings
from offpeak.text import counted, printable
from offpeak.ui.records import print_nothing, rows_json, with_times
from offpeak.ui.terminal import print_table, text_table

QUEUE_CHANGES = {"rank": "set priorities", "defer": "set begin times", "notify": "set comments", "tell": "set comments"}
"""The orders to the scheduler about jobs, as they are printed."""
OTHER_SUBJECTS = ("job ", "queue")
HISTORY_KEYS = ("subject", "what", "by", "result", "why")
HISTORY_COLUMNS = ("time", "about", "what", "by", "result", "why")

HistoryRow = Mapping[str, Any]


def print_history(
    settings: LedgerSettings,
    range_texts: tuple[str | None, str | None],
    subject: str | None,
    *,
    with_steps: bool = False,
    as_json: bool,
) -> None:
    """Print the events of a time range as `sacct` takes it; raise BadInput for an invalid time or node set.

    A sleep or a wake of a node is one row, unless it is printed `with_steps`; JSON has all of them.
    """
    zone = machine_zone()
    span = parse_range(*range_texts, now_unix_s=time.time(), zone=zone)
    subjects = parse_subjects(subject)
    with open_ledger(settings.url) as connection:
        decided = [_decision_row(decision) for decision in decisions_in(connection, span, subjects)]
        done = [_action_row(action) for action in actions_in(connection, span, subjects)]
        latest_unix_s = None if decided or done else last_written_unix_s(connection)
    events = sorted(decided + done, key=lambda each: float(each["at_unix_s"]), reverse=True)
    if as_json:
        typer.echo(rows_json([with_times(event, zone) for event in events]), nl=False)
    elif events:
        shown = events if with_steps else fold_nodes(group_steps(events))
        rows = ((second_text(event["at_unix_s"], zone), *(event[key] for key in HISTORY_KEYS)) for event in shown)
        print_table(text_table(HISTORY_COLUMNS, rows, texts=range(len(HISTORY_COLUMNS))))
    else:
        print_nothing(span, zone, latest_unix_s)


LONGEST_SLEEP_S = 3600.0
"""A step of a sleep or a wake follows the step before it within this time."""
DECIDED, DONE = "decided", "done"
SLEEP, WAKE = "sleep", "wake"
BEGINNINGS = {"sleeps": SLEEP, "is put to sleep": SLEEP, "is woken": WAKE, "wakes": WAKE}
"""The decisions, as the ledger has them, that begin a sleep or a wake."""
STEPS = {
    SLEEP: frozenset(
        {
            *("sleeps", "is put to sleep", "is counted as powered down", "is open to jobs"),
            *map(str, (NodeChange.CLOSE, NodeChange.POWER_DOWN, NodeChange.OPEN)),
            *map(str, (NodeOrder.STANDBY, NodeOrder.SOFT_OFF, NodeOrder.HARD_OFF)),
        }
    ),
    WAKE: frozenset({"is woken", "wakes", str(NodeChange.POWER_UP), str(NodeOrder.ON)}),
}


@dataclass
class _Steps:
    kind: str
    events: list[HistoryRow]


def group_steps(newest_first: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Return the events with one row for the steps of each sleep and each wake of a node, newest first.

    The row has the time and the reason of the decision, and the result of the first step that was not done.
    """
    open_groups: dict[str, _Steps] = {}
    groups: list[_Steps] = []
    for event in reversed(newest_first):
        node, what = str(event["subject"]), str(event["what"])
        group, begins = open_groups.get(node), BEGINNINGS.get(what, "")
        is_late = group is not None and event["at_unix_s"] - group.events[-1]["at_unix_s"] > LONGEST_SLEEP_S
        if group is None or is_late or what not in STEPS.get(group.kind, ()):
            group = _Steps(begins, [])
            groups.append(group)
            open_groups[node] = group
        group.events.append(event)
    return sorted(map(_group_row, groups), key=lambda row: float(row["at_unix_s"]), reverse=True)


def fold_nodes(rows: Iterable[HistoryRow]) -> list[HistoryRow]:
    """Return the rows with one row for nodes that did the same at the same time for the same reason."""
    equal: dict[tuple[object, ...], list[HistoryRow]] = {}
    for row in rows:
        is_node = not str(row["subject"]).startswith(OTHER_SUBJECTS)
        key = tuple(row[name] for name in ("at_unix_s", *HISTORY_KEYS) if name != "subject" or not is_node)
        equal.setdefault((is_node, *key), []).append(row)
    return [{**same[0], "subject": fold_names(str(row["subject"]) for row in same)} for same in equal.values()]


def _group_row(group: _Steps) -> HistoryRow:
    first, *others = group.events
    if not others:
        return first
    not_done = next((event for event in group.events if event["result"] not in (DECIDED, DONE)), None)
    shown = not_done or group.events[-1]
    result = DONE if not_done is None and any(event["result"] == DONE for event in others) else shown["result"]
    why = f"{first['why']}; {shown['what']}: {shown['why']}" if not_done else first["why"]
    return {**first, "result": f"{result}, {counted(len(group.events), 'step')}", "why": why}


def parse_subjects(text: str | None) -> tuple[str, ...]:
    """Return the subjects of a text: a job or the queue unchanged, else the nodes of the set; () for all."""
    if text is None:
        return ()
    return (text,) if text.startswith(OTHER_SUBJECTS) else expand(text)


def _decision_row(record: HistoryRow) -> dict[str, Any]:
    return {
        "at_unix_s": record["at_unix_s"],
        "subject": record["subject"],
        "what": record["decided"],
        "by": "offpeak",
        "result": DECIDED,
        "why": record["reason"],
        "inputs": record["inputs"],
    }


def _action_row(record: HistoryRow) -> dict[str, Any]:
    rule = f" by {record['rule']}" if record["rule"] else ""
    return {
        "at_unix_s": record["at_unix_s"],
        "subject": record["subject"],
        "what": QUEUE_CHANGES.get(record["order"], record["order"]),
        "by": record["by"],
        "result": record["result"] + rule,
        "why": "; ".join(filter(None, (record["reason"], record["said"]))),
        "inputs": record["inputs"],
    }


def print_trial(settings: LedgerSettings, *, as_json: bool) -> None:
    """Print the trial that was drawn last, what is on now, and the results. Raises BadInput if there is none."""
    # They compute with numpy, which `offpeak history` does without.
    from offpeak.services.accounts.trials import find_blocks, trial_results

    zone, now_s = machine_zone(), time.time()
    with open_ledger(settings.url) as connection:
        blocks, results = read_trial(connection), trial_results(connection)
    if not blocks:
        hint = 'set trial below [agent], for example trial = "winter"; the agent draws its days'
        raise BadInput("the ledger has no trial of on/off days", hint=hint)
    if as_json:
        rows = [with_times(vars(block), zone) for block in blocks]
        found = [{**asdict(result), "text": result.text} for result in results]
        typer.echo(json.dumps({"blocks": rows, "results": found}, indent=2))
        return
    first, last = blocks[0], blocks[-1]
    drawn = f"drawn {second_text(first.drawn_unix_s, zone)}, seed {first.seed}"
    span = f"{minute_text(first.from_unix_s, zone)} to {minute_text(last.until_unix_s, zone)}"
    typer.echo(f"trial {printable(first.trial)}: {span}, {drawn}")
    for block in find_blocks(blocks, now_s):
        until = minute_text(block.until_unix_s, zone)
        typer.echo(f"now: {printable(block.name)} is {ON_OFF[block.is_on]} until {until}")
    for result in results:
        typer.echo(f"{result.lever}: {result.text}")
        for why, count in result.excluded.items():
            typer.echo(f"- {counted(count, 'block')} left out: {why}")
    names = dict.fromkeys(printable(block.name) for block in blocks)
    days = groupby(blocks, key=lambda block: block.from_unix_s)
    rows_shown = ((minute_text(begin_s, zone), *(ON_OFF[block.is_on] for block in now)) for begin_s, now in days)
    print_table(text_table(("from", *names), rows_shown, texts=range(len(names) + 1)))


ON_OFF = {True: "on", False: "off"}
