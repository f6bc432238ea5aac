"""Codes that hang on names alone."""

import pytest
from hypothesis import given
from random_jobs import populations

from offpeak.model.jobs import NUMBERS_ONLY, LogNames
from offpeak.predictors.job_history import stable_code, with_stable_codes

pytestmark = pytest.mark.quick


def test_a_name_has_the_same_code_everywhere():
    assert stable_code("alice") == stable_code("alice") != stable_code("bob")
    assert stable_code(None) == -1
    assert 0 <= stable_code("") < 2**62


@given(populations)
def test_logs_that_number_names_differently_get_the_same_codes(jobs):
    known = jobs.take((jobs.user >= 0) & (jobs.user < 3))
    names = LogNames(user=("alice", "bob", "carol"))
    turned = LogNames(user=("carol", "bob", "alice"))
    other = with_stable_codes(known.with_size(known.size), names)
    mirrored = with_stable_codes(type(known)(**{**vars(known), "user": 2 - known.user}), turned)
    assert other.user.tolist() == mirrored.user.tolist()
    assert [stable_code(names.user[user]) for user in known.user.tolist()] == other.user.tolist()


@given(populations)
def test_numbers_stand_for_themselves_and_the_unknown_stays_unknown(jobs):
    coded = with_stable_codes(jobs, NUMBERS_ONLY)
    expected = [stable_code(None if user < 0 else str(user)) for user in jobs.user.tolist()]
    assert coded.user.tolist() == expected
    assert coded.runtime_s is jobs.runtime_s
