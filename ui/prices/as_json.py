"""Known prices as JSON: each interval with its value, and what was wrong with those who were asked."""

import json

import numpy as np

from ui.prices.text import KnownPrices


def prices_json(prices: KnownPrices) -> str:
    """Return the prices as a JSON object; the price of an interval without a known one is null."""
    known, series = prices.known, prices.series
    intervals = zip(series.start_s, series.start_s + series.length_s, series.value, strict=True)
    document = {
        "zone": prices.zone,
        "unit": series.unit,
        "source": known.source,
        "basis": prices.basis,
        "fetched_s": known.fetched_s,
        "age_s": known.age_s,
        "from_s": prices.window.from_s,
        "until_s": prices.window.until_s,
        "prices": [
            {"from_s": int(from_s), "until_s": int(until_s), "price": None if np.isnan(value) else float(value)}
            for from_s, until_s, value in intervals
        ],
        "troubles": [
            {"source": trouble.source, "condition": trouble.condition, "detail": trouble.detail, "hint": trouble.hint}
            for trouble in known.troubles
        ],
    }
    return json.dumps(document, indent=2)
