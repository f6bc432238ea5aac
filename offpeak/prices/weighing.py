"""Weighs prices and the emission of CO2 against each other over time."""

import math

import numpy as np

from offpeak.model.step_series import Series, split, value_at
from offpeak.model.weighing import BY_CO2, Weighing

CO2_UNIT = "kgCO2/MWh"


def weigh(price: Series, carbon: Series | float | None, weighing: Weighing) -> Series:
    """Return what decisions go by [per MWh], over the time of the prices; a gap where the price or CO2 is not known.

    `carbon` is in g/kWh, the same as kg/MWh. By CO2 alone the result is in kg of CO2.
    """
    if not weighing.needs_carbon:
        return price
    if isinstance(carbon, Series):
        price = split(price, np.append(carbon.start_s, carbon.end_s))
        kg_per_mwh = value_at(carbon, price.start_s)
    else:
        kg_per_mwh = np.full(len(price), math.nan if carbon is None else carbon)
    if weighing == BY_CO2:
        return Series(price.start_s, price.end_s, kg_per_mwh, CO2_UNIT, "carbon intensity")
    value = price.value + weighing.co2_per_t / 1000 * kg_per_mwh
    return Series(price.start_s, price.end_s, value, f"{price.currency}+CO2/MWh", price.source)
