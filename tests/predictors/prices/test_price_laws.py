"""The predictor of prices keeps the laws of all predictors, with each of its models alone too."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import LAWS, Subject

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import PriceHistory
from offpeak.predictors.prices.models import LEAR_DAYS, MEMBERS, SARIMA, SINGLE
from offpeak.predictors.prices.predictor import PricePredictor
from offpeak.predictors.scores import price_exam

MONDAY_S = 1_609_714_800  # 2021-01-04 00:00 in Brussels
BRUSSELS = parse_zone("Europe/Brussels")
EXAMPLES = 4
# A fit of SARIMA takes half a second.
FEW_EXAMPLES = 1
# With so many days a lasso can be fitted, though it is not worth it yet.
SOON_DAYS = 9
SPOILT = st.one_of(st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e300, 1e9, 0.0]), st.floats(-500, 4000))


@st.composite
def exams(draw, *, days: int, more: int):
    """Return an exam that asks after so many days with all prices; of the last of its prices some are not known."""
    step_s = draw(st.sampled_from([1800, 3600]))
    a_day = DAY_S // step_s
    random = np.random.default_rng(draw(st.integers(0, 99)))
    price = random.normal(
        draw(st.sampled_from([-20.0, 40.0])), draw(st.sampled_from([0.0, 30.0])), a_day * (days + more)
    )
    for at, value in draw(st.dictionaries(st.integers(a_day * days, len(price) - 1), SPOILT, max_size=20)).items():
        price[at] = value
    exam = price_exam(PriceHistory(MONDAY_S, step_s, price), BRUSSELS, after_days=days)
    reported = np.arange(draw(st.integers(a_day * days, len(price))))
    return replace(exam, outcomes=exam.outcomes.take(reported), known_s=exam.known_s[reported])


def subject_of(name, members, *, days):
    return Subject(
        name,
        lambda: PricePredictor(BRUSSELS, holidays="BE", members=members),
        exams(days=days, more=2),
        lowest=-np.inf,
        refuses=BadPrices,
    )


def soon(member):
    return replace(member, days=min(member.days, SOON_DAYS))


SUBJECTS = (
    *(subject_of(member.name, (soon(member),), days=SOON_DAYS if member.days else 1) for member in SINGLE),
    subject_of("ensemble", MEMBERS, days=1),
    subject_of("ensemble soon", tuple(map(soon, MEMBERS)), days=SOON_DAYS),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_law(subject, law):
    @settings(max_examples=FEW_EXAMPLES if subject.name.startswith(SARIMA.name) else EXAMPLES)
    @given(subject.exams)
    def holds(exam):
        law(subject, exam)

    holds()


def test_the_models_soon_are_those_that_wait():
    assert {member.days for member in SINGLE} == {0, LEAR_DAYS}
