"""What the agent says survives JSON, and nothing else passes for it."""

import json
from dataclasses import replace

import pytest
from agent_socket import PUBLISHED
from hypothesis import given
from hypothesis import strategies as st

from power.agent.published import Published, published_json, published_of


def test_there_and_back() -> None:
    assert published_of(json.loads(json.dumps(published_json(PUBLISHED)))) == PUBLISHED


@given(st.builds(Published, jobs=st.just(PUBLISHED.jobs)))
def test_whatever_it_says(published: Published) -> None:
    text = json.dumps(published_json(published))
    if "NaN" not in text and "Infinity" not in text:
        assert published_of(json.loads(text)) == published


def test_a_newer_agent_may_say_more() -> None:
    assert published_of(published_json(PUBLISHED) | {"moon": "full"}) == PUBLISHED


@pytest.mark.parametrize("said", [None, [], "x", {}, published_json(PUBLISHED) | {"jobs": [{"job_id": 1}]}])
def test_something_else(said: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        published_of(said)


def test_who_sees_what() -> None:
    assert PUBLISHED.seen_by(None) is PUBLISHED
    assert PUBLISHED.seen_by("bob") == replace(PUBLISHED, jobs=PUBLISHED.jobs[1:2], troubles=())
    assert PUBLISHED.seen_by("").jobs == ()
