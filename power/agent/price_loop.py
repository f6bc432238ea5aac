"""Keeps the prices of the coming days at hand, and books those that apply."""

from collections.abc import Callable, Iterable

from offpeak.ledger.ledger import Ledger
from offpeak.model.local_time import DAY_S
from offpeak.model.step_series import Series
from power.accounts.price_rows import Written, price_rows
from power.agent.parts import Parts
from power.agent.voice import Voice
from predictors.feeds.feed import fetched
from predictors.feeds.port import INCOMPLETE, FeedProblem, Window
from predictors.price_curve import PriceCurve, price_curve
from predictors.site_sources import carbon_series

EVERY_S = 900.0
"""Prices of a day ahead come once a day; a source that failed is asked again so soon."""
AHEAD_S = 2 * DAY_S


class PriceLoop:
    """Asks the site's sources in a thread; `curve` is what is known and forecast, None before the first answer.

    `carbon` [g/kWh] is what is known of the same time, None where nothing is.
    """

    def __init__(self, ledger: Ledger, voice: Voice, clock: Callable[[], float]) -> None:
        self._ledger, self._voice, self._clock = ledger, voice, clock
        self._written = Written()
        self.curve: PriceCurve | None = None
        self.carbon: Series | None = None

    async def round(self, parts: Parts) -> None:
        """Ask anew."""
        ahead_s = max(AHEAD_S, parts.settings.agent.longest_delay_s + DAY_S)
        now_s = int(self._clock())
        curve = await fetched(
            lambda: price_curve(parts.prices, parts.peak_rule, parts.zone, now_s=now_s, ahead_s=ahead_s)
        )
        window = Window(int(curve.series.start_s[0]), curve.series.end_s)
        carbon, carbon_troubles = await fetched(lambda: carbon_series(parts.carbon, window, now_s))
        self._say("prices", curve.troubles)
        self._say("carbon", carbon_troubles)
        self.curve, self.carbon = curve, carbon
        self._written, rows = price_rows(self._written, curve.series, curve.basis, now_s=now_s, carbon=carbon)
        self._ledger.write_prices(rows)

    def _say(self, about: str, troubles: Iterable[FeedProblem]) -> None:
        """Say what was wrong; that the coming days are not published yet is no trouble."""
        said = [f"{each}; {each.hint}" for each in troubles if each.condition not in INCOMPLETE]
        self._voice.trouble(about, "; ".join(said) or None)
