"""The compiled engine starts every job when the plain scheduler does."""

import pytest
from hypothesis import given
from random_logs import logs, plain, rules, starts

from offpeak.sim_backend.engine.rules import CONSERVATIVE

pytestmark = pytest.mark.quick


@given(logs(), rules())
def test_disciplines_and_window_policies(log, rules):
    assert starts(log, rules) == plain(log, rules).run()


@given(logs(most_jobs=25), rules(disciplines=[CONSERVATIVE]))
def test_conservative(log, rules):
    assert starts(log, rules) == plain(log, rules).run()
