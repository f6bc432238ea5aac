"""Why reordering the queue saves much or little at a site, told from its own load, prices and power."""

import numpy as np

from offpeak.prices.peak import Peak, classify
from sim_backend.estimate.savings import Estimate

RARELY_WAITING = 0.25
FLAT_PRICES = 1.3
ALIKE = 0.1


def reasons(estimate: Estimate) -> list[str]:
    """Return in sentences what keeps the saving small; nothing if nothing does."""
    used = estimate.used
    lines = []
    if used.waiting_share < RARELY_WAITING:
        share = f"{100 * used.waiting_share:.0f} %"
        lines.append(f"jobs waited in {share} of the time only: where nothing waits there is nothing to reorder")
    ratio = price_ratio(estimate)
    if ratio is not None and ratio < FLAT_PRICES:
        lines.append(f"dear hours cost {ratio:.2f} times what the others cost: there is little to gain between them")
    if not estimate.prepared.power.assumed and power_variation(estimate) < ALIKE:
        lines.append("jobs draw nearly the same power: no order of them is much cheaper than another")
    return lines


def price_ratio(estimate: Estimate) -> float | None:
    """Return the mean on-peak price over the mean off-peak price; None without either, or if one is not positive."""
    prices = estimate.comparison.case.prices
    laid = prices.laid
    series, peak = classify(laid.series, prices.rule)
    edges_s = np.append(series.start_s, series.end_s) - laid.offset_s
    length_s = np.diff(np.clip(edges_s, estimate.used.begin_s, estimate.used.until_s))
    means = []
    for state in (Peak.ON_PEAK, Peak.OFF_PEAK):
        inside = (peak == state) & (length_s > 0) & series.known
        if not inside.any():
            return None
        means.append(float(np.average(series.value[inside], weights=length_s[inside])))
    return means[0] / means[1] if min(means) > 0 else None


def power_variation(estimate: Estimate) -> float:
    """Return the standard deviation of the jobs' draw per unit over its mean, jobs weighed by their unit-seconds."""
    case = estimate.comparison.case
    weight = np.maximum(case.jobs.size * case.jobs.runtime_s, 1)
    mean_w = float(np.average(case.node_power_w, weights=weight))
    variance = float(np.average((case.node_power_w - mean_w) ** 2, weights=weight))
    return float(np.sqrt(variance)) / mean_w
