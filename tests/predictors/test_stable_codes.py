"""Codes that hang on names alone."""

from hypothesis import given
from random_jobs import populations

from offpeak.model.jobs import NUMBERS_ONLY, LogNames
from predictors.stable_codes import by_name, code_of


def test_a_name_has_the_same_code_everywhere():
    assert code_of("alice") == code_of("alice") != code_of("bob")
    assert code_of(None) == -1
    assert 0 <= code_of("") < 2**62


@given(populations)
def test_logs_that_number_names_differently_get_the_same_codes(jobs):
    known = jobs.take((jobs.user >= 0) & (jobs.user < 3))
    names = LogNames(user=("alice", "bob", "carol"))
    turned = LogNames(user=("carol", "bob", "alice"))
    other = by_name(known.with_size(known.size), names)
    mirrored = by_name(type(known)(**{**vars(known), "user": 2 - known.user}), turned)
    assert other.user.tolist() == mirrored.user.tolist()
    assert [code_of(names.user[user]) for user in known.user.tolist()] == other.user.tolist()


@given(populations)
def test_numbers_stand_for_themselves_and_the_unknown_stays_unknown(jobs):
    coded = by_name(jobs, NUMBERS_ONLY)
    expected = [code_of(None if user < 0 else str(user)) for user in jobs.user.tolist()]
    assert coded.user.tolist() == expected
    assert coded.runtime_s is jobs.runtime_s
