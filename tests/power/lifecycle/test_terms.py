"""How persistent the agent is, is what the settings say."""

from dataclasses import replace

import pytest

from offpeak.power.lifecycle.node_context import RetryPolicy, make_retry_policy
from offpeak.settings.agent import AgentSettings

pytestmark = pytest.mark.quick


def test_the_settings_are_what_is_usual() -> None:
    assert make_retry_policy(AgentSettings()) == RetryPolicy()


def test_retry_policy_follows_the_settings() -> None:
    retry = make_retry_policy(replace(AgentSettings(), tries=7, hands_off_s=60, cut_power=True, cycle_s=5))
    assert (retry.tries, retry.pause_after_change_s, retry.cut_power, retry.cycle_s) == (7, 60.0, True, 5)
