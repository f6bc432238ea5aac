"""Prices and carbon intensities that the file of sites tells by itself: those of a tariff and of a fixed mix."""

import numpy as np

from offpeak.model.step_series import Series
from offpeak.prices.tariff import tariff_series
from plugin.federation.site import Site


def own_price(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return the site's tariff from `from_s` to `until_s` [Unix s], None where a market has the prices."""
    return None if site.tariff is None else tariff_series(site.tariff, from_s, until_s)


def own_carbon(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return what the site's mix emits [g/kWh], None where a live series says it."""
    if site.esc_g_per_kwh is None:
        return None
    return Series(np.array([from_s]), until_s, np.array([site.esc_g_per_kwh]), "g/kWh", f"the mix of {site.name}")
