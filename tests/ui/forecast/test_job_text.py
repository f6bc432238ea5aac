"""What is printed of a job's forecast: one figure, which lies within the range beside it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.display import duration_text
from offpeak.predictors.port import Prediction
from offpeak.predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions, WaitSpread
from offpeak.predictors.waits.states import FEATURES
from offpeak.ui.forecast.jobs import ForecastJob, JobForecast, PredictorAnswer, _table, forecast_json
from offpeak.ui.forecast.log_scores import WAIT

pytestmark = pytest.mark.quick

HOUR_S = 3600
seconds = st.floats(0, 10**6)


def forecast_of(prediction):
    job = ForecastJob(size=4, estimate="2h", user=None, group=None, queue=None, name=None)
    return JobForecast(WAIT, SimpleNamespace(name="a log", notes=()), job, (PredictorAnswer("one", prediction),))


def cells(forecast):
    return [column._cells[0] for column in _table(forecast).columns]


@given(seconds, st.lists(seconds, min_size=3, max_size=3).map(sorted))
def test_the_figure_lies_within_its_range_wherever_the_mean_is(mean, quantiles):
    forecast = forecast_of(Prediction(np.array([mean]), np.array([quantiles]), ("why",)))
    (entry,) = json.loads(forecast_json(forecast))["answers"]
    assert entry["p10"] <= entry["expected"] <= entry["p90"]
    assert cells(forecast)[1:4] == [duration_text(each) for each in (quantiles[1], quantiles[0], quantiles[2])]


def question(job_id):
    none = np.full(len(job_id), -1)
    return WaitQuestions(np.array(job_id), none, none, np.zeros((len(job_id), len(FEATURES))), none, ())


def test_a_mean_that_a_few_large_errors_drag_out_of_the_range_is_not_the_figure():
    """Of answers of 23 h one in twenty came to nothing, the others true: the mean of 6.5 h falls below its range."""
    spread = WaitSpread()
    for job_id, wait_s in enumerate([0] * 5 + [23 * HOUR_S] * 95):
        spread.around(question([job_id]), np.array([23.0 * HOUR_S]), ("why",))
        spread.learn(WaitOutcomes(question([job_id]), np.array([wait_s])))
    prediction = spread.around(question([NO_JOB]), np.array([6.5 * HOUR_S]), ("why",))
    low_s, _, high_s = prediction.quantiles[0]
    assert prediction.mean[0] < low_s <= 6.5 * HOUR_S <= high_s
    assert cells(forecast_of(prediction))[1] == "6:30 h"
