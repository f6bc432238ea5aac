"""What a core-hour earns by account and QOS."""

import pytest

from offpeak.errors import BadInput
from offpeak.settings.plan import Revenue, read_revenues, revenue_per_core_h

pytestmark = pytest.mark.quick


def test_the_more_exact_one_counts() -> None:
    revenues = read_revenues("physics=0.08, physics/urgent=0.2,/urgent=0.1")
    groups = (("physics", "normal"), ("physics", "urgent"), ("chemistry", "urgent"), ("chemistry", "normal"), ("", ""))
    found = [revenue_per_core_h(revenues, *who, usual=0.05) for who in groups]
    assert found == [0.08, 0.2, 0.1, 0.05, 0.05]


def test_a_list_says_the_same_and_nothing_is_a_revenue_too() -> None:
    assert read_revenues(["free=0"]) == (Revenue("free", "", 0.0),)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("physics", "names no account or QOS"),
        ("=0.1", "names no account or QOS"),
        ("/=0.1", "names no account or QOS"),
        ("physics=much", "'much' is not a revenue"),
        ("physics=-1", "'-1' is not a revenue"),
        ("physics=nan", "'nan' is not a revenue"),
        ("a=1,a=2", "'a' stands there twice"),
        (3, "not a list of names"),
    ],
)
def test_invalid_revenue_is_refused(written: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_revenues(written)
