"""Prices of the coming hours: published, else forecast, else by the tariff; and the price curve of the agent.

Published prices are saved with the models' forecasts of them, so that each day only needs one day of learning. While
the forecast has erred more than the prices of the week before, these stand for it. Inputs, such as the load that is
forecast, are learned where the settings name them; without one the forecast uses prices alone. The curve has the prices
of today and the coming days, their basis, and the on-peak intervals. Neither ever raises.
"""

from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.display import utc_minute_text
from offpeak.errors import BadInput, BadPrices, CannotWrite
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.local_time import local_days, to_unix_s
from offpeak.model.step_series import Series, split, value_at
from offpeak.model.weighing import CO2_UNIT, Weighing
from offpeak.predictors.choice import NAIVE, ChosenErrors
from offpeak.predictors.feeds.declared import BasedSeries, TariffSource, fill_with_tariff
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.port import INCOMPLETE, FeedCondition, FeedProblem, KnownSeries, Window
from offpeak.predictors.port import ModelOrigin, Prediction, certain, load_model, save_model
from offpeak.predictors.prices.history import QUARTERS, STEPS_S, PriceHistory, PriceSteps, price_at, price_history
from offpeak.predictors.prices.lear import INPUT_DAYS
from offpeak.predictors.prices.outlook import price_fallback
from offpeak.predictors.prices.predictor import KEPT_S, PricePredictor
from offpeak.prices.peak import Peak, PeakRule, classify, weigh
from offpeak.prices.tariff import Tariff, charge_market, price_of_next_mwh, tariff_series

HISTORY_OF_OWN_S = KEPT_S
"""How much of the operator's own file is read; a service is not queried for years."""
HISTORY_OF_SERVICES_S = 56 * DAY_S
TOO_OLD_S = 7 * DAY_S
REVISED_S = 2 * DAY_S
"""How much of the inputs that are known is read again: services revise their forecasts."""


@dataclass(frozen=True, eq=False)
class PriceForecast:
    """The price of each of `steps` [unit] with its basis, and the problems of the sources.

    `exact` holds the prices of the source or the tariff, in the intervals of that source, which may differ from
    `steps`; None if every price is forecast. `origin` is the training data of the forecast, None without one. `errors`
    compare it with the prices of the week before, None before there are any.
    """

    steps: PriceSteps
    prediction: Prediction
    unit: str
    problems: tuple[FeedProblem, ...] = ()
    origin: ModelOrigin | None = None
    errors: ChosenErrors | None = None
    exact: BasedSeries | None = None


@dataclass(frozen=True)
class PriceSource:
    """Where prices come from: the feed, the tariff behind it, and the market's `holidays`; `inputs` by names that
    tell their places, too. `contract` is the tariff that charges the market's prices, None if they are paid as such.

    `model` is the file of the saved forecast; None if reading the operator's own file again is faster.
    """

    feed: Feed
    tariff: Tariff
    model: Path | None = None
    holidays: str = ""
    inputs: tuple[tuple[str, Feed], ...] = ()
    contract: Tariff | None = None

    @property
    def is_tariff(self) -> bool:
        """Whether the tariff is the only source, so that no price is a forecast."""
        return all(isinstance(source, TariffSource) for source in self.feed.sources)


def forecast_prices(source: PriceSource, window: Window, now_s: int) -> PriceForecast:
    """Return the prices of a window whose ends are whole hours."""
    if source.is_tariff:
        return _by_tariff(source.tariff, window, KnownSeries())
    predictor, damage = _recalled(source)
    own = any(each.own for each in source.feed.sources)
    since_s = min(window.from_s, now_s) - (HISTORY_OF_OWN_S if own else HISTORY_OF_SERVICES_S)
    from_s = min(max(since_s, predictor.known_until_s), window.from_s)
    known = source.feed.known(Window(from_s, window.until_s), now_s)
    if known.series:
        predictor.learn(price_history(known.series), now_s)
    series = known.series
    last_s = int(series.length_s[series.known][-1]) if series and series.known.any() else max(STEPS_S)
    step_s = last_s if last_s in STEPS_S else max(STEPS_S)
    steps = PriceSteps(window.from_s, step_s, (window.until_s - window.from_s) // step_s)
    inputs = _learn_inputs(source, predictor, window, now_s)
    problems = (*damage, *known.problems, *(problem for each in inputs for problem in each.problems))
    current = replace(known, problems=problems)
    if 0 < predictor.known_until_s < window.from_s - TOO_OLD_S:
        old = FeedProblem(
            FeedCondition.TOO_OLD, "forecast", f"the last one ends {utc_minute_text(predictor.known_until_s)}"
        )
        return _by_tariff(source.tariff, window, replace(current, problems=(*current.problems, old)))
    try:
        prediction = predictor.predict(steps, now_s)
    except BadPrices:
        return _by_tariff(source.tariff, window, current)
    failed = _kept(source.model, predictor) if any(each.fresh for each in (known, *inputs)) else ()
    pairs = zip(_published_now(steps, known), prediction.basis, strict=True)
    basis = tuple(known.basis if now else pair for now, pair in pairs)
    # Missing prices in the requested hours are forecast; the basis says so.
    serious = tuple(problem for problem in current.problems if problem.condition not in INCOMPLETE)
    exact = BasedSeries(known.series, (known.basis,) * len(known.series)) if known.series else None
    return PriceForecast(
        steps,
        replace(prediction, basis=basis),
        unit=source.feed.quantity.unit,
        problems=(*serious, *_worse(predictor), *failed),
        origin=predictor.origin,
        errors=predictor.fallback.errors if predictor.fallback else None,
        exact=exact,
    )


def _learn_inputs(source: PriceSource, predictor: PricePredictor, window: Window, now_s: int) -> list[KnownSeries]:
    answers = list[KnownSeries]()
    # Until the end of the coming day, whichever hours are forecast.
    until_s = max(window.until_s, now_s + 2 * DAY_S)
    for name, feed in source.inputs:
        known = feed.known(Window(_input_from_s(predictor.input_history(name), now_s), until_s), now_s)
        if known.series:
            predictor.learn_input(name, price_history(known.series))
        answers.append(known)
    return answers


def _input_from_s(history: PriceHistory, now_s: int) -> int:
    """Return from when on an input is asked for: anew until enough days are known to learn from, else what is new."""
    since_s = now_s - HISTORY_OF_SERVICES_S
    steps = PriceSteps(since_s // QUARTER_S * QUARTER_S, QUARTER_S, HISTORY_OF_SERVICES_S // QUARTER_S)
    known = np.flatnonzero(~np.isnan(price_at(history, steps.quarter_s)))
    if len(known) < INPUT_DAYS * QUARTERS:
        return since_s
    return int(steps.quarter_s[known[-1]]) - REVISED_S


def _worse(predictor: PricePredictor) -> tuple[FeedProblem, ...]:
    # The detail has no figures, so that the log has one line and not one for each day.
    if predictor.fallback is None or predictor.fallback.used != NAIVE:
        return ()
    return (FeedProblem(FeedCondition.WORSE, "forecast", "they are used until the forecast errs less"),)


def _recalled(source: PriceSource) -> tuple[PricePredictor, tuple[FeedProblem, ...]]:
    """Return the stored predictor, a new one if there is none or the file is damaged."""
    predictor = _fresh(source)
    if source.model is None or not source.model.exists():
        return predictor, ()
    try:
        load_model(source.model, predictor)
    except BadInput as problem:
        return _fresh(source), (FeedProblem(FeedCondition.CACHE_DAMAGED, "model", str(problem)),)
    return predictor, ()


def _fresh(source: PriceSource) -> PricePredictor:
    inputs = [name for name, _ in source.inputs]
    return PricePredictor(source.feed.clock, holidays=source.holidays, fallback=price_fallback(), inputs=inputs)


def _kept(model: Path | None, predictor: PricePredictor) -> tuple[FeedProblem, ...]:
    if model is None:
        return ()
    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        save_model(model, predictor, predictor.origin)
    except (OSError, CannotWrite) as problem:
        return (FeedProblem(FeedCondition.CACHE_UNWRITABLE, "model", str(problem)),)
    return ()


def _published_now(steps: PriceSteps, known: KnownSeries) -> NDArray[np.bool_]:
    """Return for which steps the feed just returned a price; others may have been published earlier."""
    if known.series is None:
        return np.zeros(steps.count, np.bool_)
    quarters = value_at(known.series, steps.quarter_s).reshape(steps.count, -1)
    return np.asarray(~np.isnan(quarters).any(axis=1))


def _by_tariff(tariff: Tariff, window: Window, known: KnownSeries) -> PriceForecast:
    based = fill_with_tariff(known, tariff_series(tariff, *window), window, tariff.basis)
    series = based.series
    after_s = series.start_s - window.from_s
    step_s = next((s for s in sorted(STEPS_S, reverse=True) if not np.any(after_s % s)), min(STEPS_S))
    steps = PriceSteps(window.from_s, step_s, (window.until_s - window.from_s) // step_s)
    start_s = np.arange(steps.start_s, steps.end_s, steps.step_s, dtype=np.int64)
    held = np.searchsorted(based.series.start_s, start_s, side="right") - 1
    price = price_history(based.series).price.reshape(steps.count, -1).mean(axis=1)
    current = replace(certain(price, ""), basis=tuple(based.basis[at] for at in held))
    return PriceForecast(steps, current, based.series.unit, known.problems, exact=based)


@dataclass(frozen=True, eq=False)
class PriceCurve:
    """A series of prices without gaps from a midnight on, and of each interval its class (`Peak`) and its basis.

    `basis` is "published", "tariff" or "forecast ...". `problems` are those of the sources. `quantiles` are the lowest
    and the highest of offpeak.predictors.port.LEVELS for each interval, float64[n, 2]; None without forecast. `errors`
    [unit] are those of recent forecasts, None if unknown. `weighed` replaces the prices where the site's decisions
    weigh CO2.
    """

    series: Series
    peak: NDArray[np.int8]
    basis: tuple[str, ...]
    problems: tuple[FeedProblem, ...] = ()
    quantiles: Float64 | None = None
    errors: ChosenErrors | None = None
    weighed: "PriceCurve | None" = None
    decided_by: str = ""

    @property
    def decisions(self) -> "PriceCurve":
        """What the order, delays and plans go by."""
        return self.weighed or self

    @property
    def range_80(self) -> tuple[Float64, Float64]:
        """The range of four of five outcomes for each interval; a published price is both bounds."""
        if self.quantiles is None:
            return self.series.value, self.series.value
        return self.quantiles[:, 0], self.quantiles[:, 1]

    def at(self, unix_s: int) -> int:
        """Return the index of the interval that contains that second, -1 outside."""
        if unix_s >= self.series.end_s:
            return -1
        return int(np.searchsorted(self.series.start_s, unix_s, side="right")) - 1

    def peak_at(self, unix_s: int) -> Peak:
        """Return the class of that second."""
        at = self.at(unix_s)
        return Peak.UNKNOWN if at < 0 else Peak(int(self.peak[at]))

    def peak_until_s(self, unix_s: int) -> int:
        """Return the end of the class of that second, at most the end of the curve."""
        at = self.at(unix_s)
        later = np.flatnonzero(self.peak[at + 1 :] != self.peak[at]) if at >= 0 else np.empty(0)
        return int(self.series.start_s[at + 1 + later[0]]) if len(later) else self.series.end_s


def price_curve(source: PriceSource, rule: PeakRule, zone: tzinfo, *, now_s: int, ahead_s: int) -> PriceCurve:
    """Return the curve from the last midnight of the zone to a midnight at least `ahead_s` from now. Never raises.

    It queries the services of the source, which may take as long as their time-outs.
    """
    until_s = now_s + ahead_s
    days = local_days(now_s - DAY_S, until_s + 2 * DAY_S, zone)
    midnights, _ = to_unix_s(days.astype(np.int64) * DAY_S, zone)
    first = int(np.searchsorted(midnights, now_s, side="right")) - 1
    last = int(np.searchsorted(midnights, max(until_s, now_s + 1), side="left"))
    window = Window(int(midnights[first]), int(midnights[last]))
    if source.is_tariff:
        tariff = source.tariff
        series, peak = classify(tariff_series(tariff, *window), rule)
        return PriceCurve(series, peak, (tariff.basis,) * len(series))
    # Forecasts are made for whole hours on the clock of UTC, as those of every market.
    hours = Window(window.from_s // HOUR_S * HOUR_S, -(-window.until_s // HOUR_S) * HOUR_S)
    return _of_forecast(forecast_prices(source, hours, now_s), rule, source.contract)


def weigh_curve(curve: PriceCurve, carbon: Series | None, weighing: Weighing, rule: PeakRule) -> PriceCurve:
    """Return the curve whose decisions weigh CO2 [g/kWh]; their class is not known where the intensity is not."""
    if not weighing.needs_carbon:
        return curve
    series, peak = classify(weigh(curve.series, carbon, weighing), rule)
    at = np.searchsorted(curve.series.start_s, series.start_s, side="right") - 1
    basis = tuple(series.source if series.unit == CO2_UNIT else curve.basis[each] for each in at)
    return replace(curve, weighed=PriceCurve(series, peak, basis), decided_by=str(weighing))


def _of_forecast(forecast: PriceForecast, rule: PeakRule, contract: Tariff | None) -> PriceCurve:
    whole, basis, quantiles = _by_interval(forecast)
    series, peak = classify(charge_market(contract, whole) if contract else whole, rule)
    at = np.searchsorted(whole.start_s, series.start_s, side="right") - 1
    bases, ranges = tuple(basis[each] for each in at), quantiles[at]
    if contract:
        ranges = np.column_stack([price_of_next_mwh(contract, series.start_s, each) for each in ranges.T])
    return PriceCurve(series, peak, bases, forecast.problems, quantiles=ranges, errors=forecast.errors)


def _by_interval(forecast: PriceForecast) -> tuple[Series, list[str], Float64]:
    """Return the prices, and of each interval its basis and its range. Known prices keep the intervals of their source.

    The simulation uses them unchanged, so an hourly mean would change the agent's decisions.
    """
    steps, prediction, exact = forecast.steps, forecast.prediction, forecast.exact
    step_s = np.arange(steps.start_s, steps.end_s, steps.step_s, dtype=np.int64)
    series = Series(step_s, steps.end_s, prediction.point, forecast.unit, "forecast")
    ranges = prediction.quantiles[:, [0, -1]]
    if exact is None:
        return series, list(prediction.basis), ranges
    series = split(series, np.append(exact.series.start_s, exact.series.end_s))
    price = value_at(exact.series, series.start_s)
    known = ~np.isnan(price)
    step = np.searchsorted(step_s, series.start_s, side="right") - 1
    source = np.searchsorted(exact.series.start_s, series.start_s, side="right") - 1
    basis = [exact.basis[source[at]] if known[at] else prediction.basis[step[at]] for at in range(len(series))]
    ranges = np.where(known[:, None], price[:, None], ranges[step])
    return replace(series, value=np.where(known, price, series.value)), basis, ranges
