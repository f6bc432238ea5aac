"""A status survives JSON, and nothing else is taken for a status."""

import json
from dataclasses import replace

import pytest
from agent_socket import PUBLISHED
from hypothesis import given
from hypothesis import strategies as st

from offpeak.services.agent.status import StatusReply, parse_status, status_json

pytestmark = pytest.mark.quick


def test_published_status_survives_json() -> None:
    assert parse_status(json.loads(json.dumps(status_json(PUBLISHED)))) == PUBLISHED


@given(st.builds(StatusReply, jobs=st.just(PUBLISHED.jobs)))
def test_any_status_survives_json(published: StatusReply) -> None:
    text = json.dumps(status_json(published))
    if "NaN" not in text and "Infinity" not in text:
        assert parse_status(json.loads(text)) == published


def test_a_newer_agent_may_say_more() -> None:
    assert parse_status(status_json(PUBLISHED) | {"moon": "full"}) == PUBLISHED


@pytest.mark.parametrize("reply", [None, [], "x", {}, status_json(PUBLISHED) | {"jobs": [{"job_id": 1}]}])
def test_other_json_is_no_status(reply: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse_status(reply)


def test_users_see_their_own_jobs_only() -> None:
    assert PUBLISHED.seen_by(None) is PUBLISHED
    assert PUBLISHED.seen_by("bob") == replace(PUBLISHED, jobs=PUBLISHED.jobs[1:2], problems=())
    assert PUBLISHED.seen_by("").jobs == ()
