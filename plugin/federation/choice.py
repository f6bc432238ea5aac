"""A choice for people and programs: the site of a job, the reason, the second-best site, and what is missing elsewhere.

As JSON, for programs and portals, times have their zone and every figure has its unit in its name.
"""

from dataclasses import dataclass
from typing import Any

from offpeak.display import utc_text
from offpeak.model.constants import J_PER_KWH


@dataclass(frozen=True)
class SiteEstimate:
    """What a job would take at a site: `delay_s` until it starts, run time, cores of whole units, energy, cost, CO2.

    `score` is what the policy compared, None if it saw no choice. `transfer_s` is the part for its data.
    """

    site: str
    delay_s: float
    runtime_s: float
    cores: int
    energy_j: float
    cost: float
    co2_g: float
    score: float | None
    transfer_s: float = 0.0


@dataclass(frozen=True)
class SiteMismatch:
    """Why a site cannot run a job; `passes`: it may be able to later, as its answer, price or wait is not known now."""

    site: str
    text: str
    passes: bool = False


@dataclass(frozen=True)
class SiteChoice:
    """The site of a job, None if there is none now, with the reason.

    `chosen` and `second` are the site and the best of the others, None if there is none; `misses` are the sites that
    cannot run it. A job without a site `may_wait` for the next cycle if there is a site that can run it.
    """

    job_id: int
    site: str | None
    reason: str
    chosen: SiteEstimate | None
    second: SiteEstimate | None
    misses: tuple[SiteMismatch, ...]
    may_wait: bool = False

    @property
    def is_impossible(self) -> bool:
        """Whether it is certain that no site can run the job."""
        return self.site is None and not self.may_wait and not any(miss.passes for miss in self.misses)


def choice_json(choice: SiteChoice, *, now_s: int, currency: str) -> dict[str, Any]:
    """Return the choice as JSON's objects: `site` is None if no site can have the job now."""
    second = choice.second
    return {
        "site": choice.site,
        "reason": choice.reason,
        "expected": _estimate_json(choice.chosen, now_s, currency),
        "second": None if second is None else {"site": second.site, **(_estimate_json(second, now_s, currency) or {})},
        "misses": {miss.site: miss.text for miss in choice.misses},
    }


def _estimate_json(estimate: SiteEstimate | None, now_s: int, currency: str) -> dict[str, Any] | None:
    if estimate is None:
        return None
    starts_s = now_s + estimate.delay_s
    return {
        "starts": utc_text(starts_s),
        "ends": utc_text(starts_s + estimate.runtime_s),
        "wait_s": round(estimate.delay_s),
        **({"transfer_s": round(estimate.transfer_s)} if estimate.transfer_s else {}),
        "run_s": round(estimate.runtime_s),
        "cores": estimate.cores,
        "energy_kwh": round(estimate.energy_j / J_PER_KWH, 3),
        "cost": round(estimate.cost, 4),
        "currency": currency,
        "co2_kg": round(estimate.co2_g / 1000, 3),
    }
