"""The metrics of the agent's snapshot."""

from dataclasses import replace

import pytest
from agent_socket import AT_S
from page_site import make_snapshot

from services.page.metrics import make_families


@pytest.mark.parametrize(("has_looked", "timestamp"), [(True, AT_S), (False, 0)])
def test_an_agent_without_a_successful_round_has_never_looked(has_looked: bool, timestamp: int) -> None:
    shown = make_snapshot(2, 2)
    shown = replace(shown, published=replace(shown.published, at_unix_s=float(AT_S), has_looked=has_looked))
    of_name = {family.name: family for family in make_families(shown)}
    assert [sample.value for sample in of_name["offpeak_agent_last_look_timestamp_seconds"].samples] == [timestamp]
