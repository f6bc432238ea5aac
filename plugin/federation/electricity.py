"""The electricity of a site: prices of its tariff, emissions of its mix, and integrals of such series.

Integrals give the cost or emission of a stretch of time per watt, for whole columns of stretches at once.

Source of the emissions: Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing", Table I
and equations (2) and (3); the table has kg CO2 per kWh.
"""

import math
from collections.abc import Mapping

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import IntegralCurve, Series, running_integral
from offpeak.prices.tariff import tariff_series
from offpeak.text import did_you_mean
from plugin.federation.sites import Site

EMISSIONS_G_PER_KWH = {
    "closed-cycle-gas": 360.0,
    "coal": 910.0,
    "france-interconnector": 83.0,
    "ireland-interconnector": 699.0,
    "hydro": 0.0,
    "nuclear": 16.1,
    "open-cycle-gas": 479.0,
    "oil": 610.0,
    "pumped-storage": 0.0,
    "other": 610.0,
}
WHOLE_PERCENT = 100.0


def esc_g_per_kwh(percent: Mapping[str, float]) -> float:
    """Return the energy source coefficient of a mix in per cent: the sum of shares times emission factors.

    Raises BadInput for a source that the table lacks, a share below zero, or shares that do not add up to 100.
    """
    for source, share in percent.items():
        if source not in EMISSIONS_G_PER_KWH:
            raise BadInput(f"{source}: is no source of energy", hint=did_you_mean(source, EMISSIONS_G_PER_KWH))
        if not share >= 0:
            raise BadInput(f"{source}: {share:g} % is no share", hint="give zero or more per cent")
    whole = math.fsum(percent.values())
    if not math.isclose(whole, WHOLE_PERCENT, abs_tol=0.01):
        raise BadInput(
            f"the shares add up to {whole:g} %", hint="they have to add up to 100; there is a source `other`"
        )
    return math.fsum(share / WHOLE_PERCENT * EMISSIONS_G_PER_KWH[source] for source, share in percent.items())


def tariff_price(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return the site's tariff from `from_s` to `until_s` [Unix s], None if a market has the prices."""
    return None if site.tariff is None else tariff_series(site.tariff, from_s, until_s)


def mix_carbon(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return what the site's mix emits [g/kWh], None if a live series has it."""
    if site.esc_g_per_kwh is None:
        return None
    return Series(np.array([from_s]), until_s, np.array([site.esc_g_per_kwh]), "g/kWh", f"the mix of {site.name}")


CENTURY_S = 36_525.0 * DAY_S


def integrate_series(series: Series) -> IntegralCurve:
    """Return the integral of a series; a gap in it counts as its mean.

    For a century before the series its first value holds, for a century after it the mean of its last day. Raises
    BadPrices if it has no known value.
    """
    value = _fill_gaps(series)
    edge_s = np.append(series.start_s, series.end_s).astype(np.float64)
    total = running_integral(edge_s, value)
    day_s = min(float(DAY_S), edge_s[-1] - edge_s[0])
    last_day = (total[-1] - np.interp(edge_s[-1] - day_s, edge_s, total)) / day_s
    return IntegralCurve(
        np.concatenate([edge_s[:1] - CENTURY_S, edge_s, edge_s[-1:] + CENTURY_S]),
        np.concatenate([total[:1] - value[0] * CENTURY_S, total, total[-1:] + last_day * CENTURY_S]),
    )


def _fill_gaps(series: Series) -> Float64:
    known = series.known
    if known.all():
        return series.value
    if not known.any():
        raise BadPrices(f"{series.source}: has no known value", hint="`offpeak prices` shows what each source knows")
    mean = np.average(series.value[known], weights=series.length_s[known])
    return np.where(known, series.value, mean)
