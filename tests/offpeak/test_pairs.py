import pytest

from offpeak.errors import BadPrices
from offpeak.text import parse_pairs

pytestmark = pytest.mark.quick


def test_pairs_in_any_order_with_blanks():
    assert parse_pairs(" b = 2 , a=1,", known=("a", "b"), error=BadPrices) == {"a": "1", "b": "2"}
    assert parse_pairs("", known=("a",), error=BadPrices) == {}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("hous=1", "unknown key 'hous'", "did you mean hours?"),
        ("hours=1,hours=2", "twice", "keep one"),
        ("hours", "not key=value", "hours=..."),
        ("hours=", "not key=value", "hours=..."),
    ],
)
def test_text_that_is_no_pair_is_refused(text, message, hint):
    with pytest.raises(BadPrices, match=message) as problem:
        parse_pairs(text, known=("hours", "zone"), error=BadPrices)
    assert hint in problem.value.hint
