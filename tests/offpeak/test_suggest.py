import pytest

from offpeak.text import did_you_mean

pytestmark = pytest.mark.quick


def test_the_nearest_name_or_all():
    assert did_you_mean("Zoen", ["hours", "zone"]) == "did you mean zone?"
    assert did_you_mean("xyz", ["hours", "zone"]) == "known: hours, zone"


def test_many_texts_are_not_all_listed():
    assert did_you_mean("!", [f"word{i:02}" for i in range(40)]).endswith("word11, ... (40 in all)")
