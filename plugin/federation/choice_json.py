"""A choice as programs and portals get it: times with their zone, and every figure with its unit in its name."""

from datetime import UTC, datetime
from typing import Any

from plugin.federation.choice import Choice, Estimate

J_PER_KWH = 3.6e6


def choice_json(choice: Choice, *, now_s: int, currency: str) -> dict[str, Any]:
    """Return the choice as JSON's objects: `site` is None where no site can have the job now."""
    second = choice.second
    return {
        "site": choice.site,
        "reason": choice.reason,
        "expected": _estimate(choice.chosen, now_s, currency),
        "second": None if second is None else {"site": second.site, **(_estimate(second, now_s, currency) or {})},
        "misses": {miss.site: miss.text for miss in choice.misses},
    }


def _estimate(estimate: Estimate | None, now_s: int, currency: str) -> dict[str, Any] | None:
    if estimate is None:
        return None
    starts_s = now_s + estimate.delay_s
    return {
        "starts": time_text(starts_s),
        "ends": time_text(starts_s + estimate.runtime_s),
        "wait_s": round(estimate.delay_s),
        "run_s": round(estimate.runtime_s),
        "cores": estimate.cores,
        "energy_kwh": round(estimate.energy_j / J_PER_KWH, 3),
        "cost": round(estimate.cost, 4),
        "currency": currency,
        "co2_kg": round(estimate.co2_g / 1000, 3),
    }


def time_text(unix_s: float) -> str:
    """Return an instant such as 2026-11-22T08:00:00Z."""
    return datetime.fromtimestamp(round(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
