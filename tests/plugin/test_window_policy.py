"""The registry of window policies, with packages from outside that are really on the path."""

from functools import partial

import pytest
from installed_policy import WIDEST_FIRST, install_policy

from offpeak.errors import BadInput, OffpeakError
from offpeak.plugin.window_policy import BUILT_IN, EXTERNAL, window_policies, window_policy

pytestmark = pytest.mark.quick


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package by the files that pip would leave."""
    monkeypatch.syspath_prepend(tmp_path)
    return partial(install_policy, tmp_path)


def test_the_built_in_policies():
    assert list(window_policies()) == ["greedy", "knapsack", "greedy-slide", "knapsack-slide"]
    for policy in BUILT_IN:
        assert window_policy(policy.name) == policy
        assert policy.order is None
        assert policy.doc


def test_the_codes_are_distinct():
    assert len({policy.code for policy in BUILT_IN} | {EXTERNAL}) == len(BUILT_IN) + 1


def test_an_unknown_name_is_an_error_with_the_nearest_name():
    with pytest.raises(BadInput, match=r"^unknown policy 'gready'$") as error:
        window_policy("gready")
    assert error.value.hint == "did you mean greedy?"


def test_a_policy_from_outside_is_found_by_its_entry_point(install):
    install("widest_policy", "widest = widest_policy:order", WIDEST_FIRST)
    assert list(window_policies())[-1] == "widest"
    policy = window_policy("widest")
    assert (policy.name, policy.code, policy.doc) == ("widest", EXTERNAL, "widest_policy:order")
    assert policy.most_jobs is None
    assert policy.order.__module__ == "widest_policy"


def test_listing_the_policies_imports_none(install):
    install("explosive_policy", "explosive = explosive_policy:order", "raise RuntimeError('boom')")
    assert "explosive" in window_policies()
    assert window_policy("greedy") in BUILT_IN


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("raise RuntimeError('boom')", "boom"),
        ("def other(view): return []", "has no attribute 'order'"),
    ],
)
def test_a_broken_policy_is_reported(install, code, fault):
    install("broken_policy", "broken = broken_policy:order", code)
    with pytest.raises(
        OffpeakError, match=f"^the window policy 'broken' of broken_policy:order cannot be .*{fault}"
    ) as e:
        window_policy("broken")
    assert e.value.hint == "uninstall or repair its package"


def test_a_name_that_is_taken_is_an_error(install):
    install("second_greedy", "greedy = second_greedy:order", WIDEST_FIRST)
    with pytest.raises(OffpeakError, match="'greedy' of second_greedy:order has a name that is taken") as error:
        window_policies()
    assert "rename" in error.value.hint


@pytest.mark.parametrize("name", ["plan", "off"])
def test_a_name_that_the_setting_uses_otherwise_is_taken(install, name):
    install("other_plan", f"{name} = other_plan:order", WIDEST_FIRST)
    with pytest.raises(OffpeakError, match="has a name that is taken"):
        window_policies()


def test_two_packages_with_one_name_are_an_error(install):
    install("one_widest", "widest = one_widest:order", WIDEST_FIRST)
    install("two_widest", "widest = two_widest:order", WIDEST_FIRST)
    with pytest.raises(OffpeakError, match="has a name that is taken"):
        window_policy("widest")
