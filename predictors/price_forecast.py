"""Prices of the coming hours: published, else forecast, else by the tariff. It never raises.

Published prices are saved with the models' forecasts of them, so that each day only needs one day of learning. While
the forecast has erred more than the prices of the week before, these stand for it. Inputs, such as the load that is
forecast, are learned where the settings name them; without one the forecast uses prices alone.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.display import utc_minute_text
from offpeak.errors import BadInput, BadPrices, CannotWrite
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series, value_at
from offpeak.prices.tariff import Tariff, tariff_series
from predictors.choice import NAIVE, ChosenErrors
from predictors.feeds.declared import BasedSeries, TariffSource, fill_with_tariff
from predictors.feeds.feed import Feed
from predictors.feeds.port import INCOMPLETE, FeedCondition, FeedProblem, KnownSeries, Window
from predictors.port import ModelOrigin, Prediction, certain, load_model, save_model
from predictors.prices.history import QUARTER_S, QUARTERS, STEPS_S, PriceHistory, PriceSteps, price_at, price_history
from predictors.prices.lear import INPUT_DAYS
from predictors.prices.outlook import price_fallback
from predictors.prices.predictor import KEPT_S, PricePredictor

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
    steps = _steps(window, known.series)
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


def _steps(window: Window, series: Series | None) -> PriceSteps:
    last_s = int(series.length_s[series.known][-1]) if series and series.known.any() else max(STEPS_S)
    step_s = last_s if last_s in STEPS_S else max(STEPS_S)
    return PriceSteps(window.from_s, step_s, (window.until_s - window.from_s) // step_s)


def _published_now(steps: PriceSteps, known: KnownSeries) -> NDArray[np.bool_]:
    """Return for which steps the feed just returned a price; others may have been published earlier."""
    if known.series is None:
        return np.zeros(steps.count, np.bool_)
    quarters = value_at(known.series, steps.quarter_s).reshape(steps.count, -1)
    return np.asarray(~np.isnan(quarters).any(axis=1))


def _by_tariff(tariff: Tariff, window: Window, known: KnownSeries) -> PriceForecast:
    based = fill_with_tariff(known, tariff_series(tariff, *window), window, tariff.basis)
    steps = _steps_that_fit(window, based.series)
    start_s = np.arange(steps.start_s, steps.end_s, steps.step_s, dtype=np.int64)
    held = np.searchsorted(based.series.start_s, start_s, side="right") - 1
    price = price_history(based.series).price.reshape(steps.count, -1).mean(axis=1)
    current = replace(certain(price, ""), basis=tuple(based.basis[at] for at in held))
    return PriceForecast(steps, current, based.series.unit, known.problems, exact=based)


def _steps_that_fit(window: Window, series: Series) -> PriceSteps:
    """Return the longest steps whose starts include all changes of the series, else quarter-hours."""
    after_s = series.start_s - window.from_s
    step_s = next((s for s in sorted(STEPS_S, reverse=True) if not np.any(after_s % s)), min(STEPS_S))
    return PriceSteps(window.from_s, step_s, (window.until_s - window.from_s) // step_s)
