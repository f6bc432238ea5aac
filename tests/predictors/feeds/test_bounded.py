"""Whatever a source or its library does, the caller goes on."""

import threading
from dataclasses import dataclass
from threading import Event

import pytest

from offpeak.predictors.feeds.feed import fetch_within
from offpeak.predictors.feeds.port import FeedCondition, Window

pytestmark = pytest.mark.quick


@dataclass(frozen=True)
class Hangs:
    released: Event
    name: str = "hangs"
    own: bool = False

    def fetch(self, _):
        self.released.wait(300)


@dataclass(frozen=True)
class Breaks:
    name: str = "breaks"
    own: bool = False

    def fetch(self, _):
        raise RuntimeError("https://x/?securityToken=the-secret-key")


def test_a_source_that_hangs_is_left_behind():
    released = Event()
    found = fetch_within(Hangs(released), Window(0, 1), 0.05)
    assert (found.condition, found.source) == (FeedCondition.HANGING, "hangs")
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "feed hangs")
    released.set()


def test_a_source_that_breaks_is_named_and_does_not_tell_its_key():
    found = fetch_within(Breaks(), Window(0, 1), 120)
    assert (found.condition, found.source) == (FeedCondition.GARBAGE, "breaks")
    assert "RuntimeError" in str(found)
    assert "the-secret-key" not in repr(found)
