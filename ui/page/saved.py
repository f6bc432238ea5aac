"""What was saved today and this month, and how much of that was measured."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Saved = dict[str, Any]
SHARE = re.compile(r"(\d+)% measured")


def saved_said(said: Mapping[str, Any]) -> Saved:
    """Return the agent's figure of today."""
    return {name: said.get(name) for name in ("energy_j", "cost", "currency")} | {"known": known_by(said.get("basis"))}


def month_of(days: Sequence[Mapping[str, Any]], today: Mapping[str, Any]) -> Saved:
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


def known_by(basis: str | None) -> str:
    """Return "measured", "modelled" or "partly measured", from what stands beside a saving; "" for nothing."""
    found = SHARE.search(basis or "")
    if not found:
        return ""
    return {"100": "measured", "0": "modelled"}.get(found[1], "partly measured")


def _day(row: Mapping[str, Any]) -> Saved:
    cost = None if row["cost"] is None or row["baseline_cost"] is None else row["baseline_cost"] - row["cost"]
    energy_j = row["baseline_energy_j"] - row["energy_j"]
    return {"energy_j": energy_j, "cost": cost, "currency": row["currency"], "known": known_by(row["basis"])}
