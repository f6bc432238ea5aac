"""Keeps at hand what comes from outside besides prices, for the policy plan: caps on power, and the weather."""

from collections.abc import Callable

from offpeak.model.facility import PowerCap
from offpeak.model.step_series import Series
from power.agent.parts import Parts
from power.agent.price_loop import AHEAD_S
from power.agent.voice import Voice
from predictors.demand_response import OrderedCaps, read_caps
from predictors.feeds.feed import fetched
from predictors.feeds.port import Window
from predictors.feeds.registry import temperature_feed

EVERY_S = 60.0
"""A cap may be ordered at short notice."""
WEATHER_S = 3600.0


class OutsideLoop:
    """Asks in threads. `weather` [degC] is None before it is known, or where no source of it is named."""

    def __init__(self, voice: Voice, clock: Callable[[], float]) -> None:
        self._voice, self._clock = voice, clock
        self._caps, self._weather_s = OrderedCaps(), float("-inf")
        self.weather: Series | None = None

    def caps(self) -> tuple[PowerCap, ...]:
        """Return the caps that are not over."""
        return self._caps.ahead(int(self._clock()))

    async def round(self, parts: Parts) -> None:
        """Ask anew."""
        settings = parts.settings
        timeout_s = settings.feeds.timeout_s
        self._caps = await fetched(lambda: read_caps(settings.plan, parts.zone, self._caps, timeout_s=timeout_s))
        self._voice.trouble("caps on power", "; ".join(self._caps.troubles) or None)
        if settings.feeds.temperature and self._clock() - self._weather_s > WEATHER_S:
            await self._ask_weather(parts, int(self._clock()))
            self._weather_s = self._clock()

    async def _ask_weather(self, parts: Parts, now_s: int) -> None:
        feed = temperature_feed(parts.settings.feeds)
        if feed is None:
            return
        known = await fetched(lambda: feed.known(Window(now_s - 3600, now_s + int(AHEAD_S)), now_s))
        self.weather = known.series or self.weather
        said = "; ".join(f"{each}; {each.hint}" for each in known.troubles) if known.series is None else None
        self._voice.trouble("weather", said)
