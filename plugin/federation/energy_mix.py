"""What a kilowatt-hour emits, by where it comes from.

Source: Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing", Table I and equations (2)
and (3); the table has kg CO2 per kWh.
"""

import math
from collections.abc import Mapping

from offpeak.errors import BadInput
from offpeak.text import did_you_mean

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

    BadInput for a source that the table lacks, a share below zero, or shares that do not add up to 100.
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
