"""Where keys are kept, and who must not read them."""

import pytest

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.predictors.feeds.web import KeyLocation, read_key

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch):
    monkeypatch.delenv("ENTSOE_API_KEY", raising=False)


def test_from_the_file(key_file):
    assert read_key(KeyLocation("ENTSOE_API_KEY", key_file), "test") == "the-secret-key"
    assert read_key(KeyLocation("ELECTRICITY_MAPS_TOKEN", key_file), "test") == "the-secret-key"


def test_the_environment_wins(key_file, monkeypatch):
    monkeypatch.setenv("ENTSOE_API_KEY", " another ")
    assert read_key(KeyLocation("ENTSOE_API_KEY", key_file), "test") == "another"
    assert read_key(KeyLocation("ENTSOE_API_KEY"), "test") == "another"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_not_used(key_file, mode):
    key_file.chmod(mode)
    problem = read_key(KeyLocation("ENTSOE_API_KEY", key_file), "test")
    assert problem.condition is FeedCondition.NO_KEY
    assert f"{mode:04o}" in problem.detail
    assert "chmod 600" in problem.hint


@pytest.mark.parametrize("content", [b"", b"OTHER=1\n", b"ENTSOE_API_KEY=\n", b"ENTSOE_API_KEY\n", b"\xff\xfe"])
def test_a_file_without_it(key_file, content):
    key_file.write_bytes(content)
    assert read_key(KeyLocation("ENTSOE_API_KEY", key_file), "test").condition is FeedCondition.NO_KEY


def test_no_file(tmp_path):
    for place in (
        KeyLocation("ENTSOE_API_KEY"),
        KeyLocation("ENTSOE_API_KEY", tmp_path / "no"),
        KeyLocation("NO", tmp_path),
    ):
        assert isinstance(read_key(place, "test"), FeedProblem)
