"""How far the door is open for each partition."""

from dataclasses import replace

import pytest

from offpeak.door.effect import Mode
from offpeak.errors import BadSetting
from offpeak.services.agent.site_context import parse_modes
from offpeak.settings.agent import AgentSettings

pytestmark = pytest.mark.quick


def test_effect_on_several_partitions_uses_the_strictest_mode() -> None:
    modes = parse_modes(AgentSettings(mode="active", partition_modes=("debug=shadow", "long=advise")))
    assert modes.of(["batch"]) is Mode.ACTIVE
    assert modes.of(["batch", "long"]) is Mode.ADVISE
    assert modes.of(["long", "debug", "batch"]) is Mode.SHADOW


def test_effect_on_no_partition_uses_the_usual_mode() -> None:
    assert parse_modes(AgentSettings(mode="advise", partition_modes=("batch=active",))).of([]) is Mode.ADVISE


@pytest.mark.parametrize("text", ["debug", "debug=", "=shadow", "debug=shadwo", "debug=active=now"])
def test_a_mode_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="partition_modes"):
        parse_modes(AgentSettings(partition_modes=(text,)))


def test_an_own_policy_may_not_change_the_order_until_it_is_allowed() -> None:
    own = AgentSettings(mode="active", queue="widest")
    assert parse_modes(own).of_order(["batch"]) is Mode.SHADOW
    assert parse_modes(own).of(["batch"]) is Mode.ACTIVE
    allowed = parse_modes(replace(own, allow_own_policies=True))
    assert allowed.of_order(["batch"]) is Mode.ACTIVE
    assert parse_modes(AgentSettings(mode="active")).of_order(["batch"]) is Mode.ACTIVE
    assert not allowed.narrowed(parse_modes(own)).may_rank
    assert parse_modes(own).widened(allowed).may_rank
