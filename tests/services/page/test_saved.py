"""The savings on the page."""

from offpeak.ledger.prices import MeanPrice
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from services.accounts.savings import NodeRest, RestUse, sum_savings
from services.agent.status import SavingStatus
from services.page.event_stream import basis_of_saving, month_savings, today_savings

HOUR_S = 3600.0
TODAY = {"energy_j": 3.6e6, "cost": 0.1, "currency": "EUR", "known": "measured"}
DAY = {
    "baseline_energy_j": 10.0,
    "baseline_cost": 3.0,
    "energy_j": 4.0,
    "cost": 1.0,
    "currency": "EUR",
    "basis": "1.0 h of rest of 1 node; 100% measured, else by node class",
}


def basis(*measured: bool) -> str:
    rest = NodeRest("n1", 0.0, HOUR_S, {NodeState.OFF: HOUR_S})
    uses = [RestUse(rest, 1.0, 2.0, each, MeanPrice(90.0, 400.0, "EUR", 1.0)) for each in measured]
    saving = sum_savings(TimeRange(0.0, HOUR_S), uses)
    assert saving
    return saving.basis


def test_accounts_are_parsed() -> None:
    assert basis_of_saving(basis(True, True)) == "measured"
    assert basis_of_saving(basis(True, False)) == "partly measured"
    assert basis_of_saving(basis(False)) == "modelled"
    assert basis_of_saving("") == basis_of_saving(None) == ""


def test_a_month_is_its_days_and_today() -> None:
    month = month_savings([DAY, DAY], TODAY)
    assert (month["energy_j"], month["cost"], month["days"]) == (3.6e6 + 12, 4.1, 3)
    assert (month["currency"], month["known"]) == ("EUR", "measured")


def test_no_cost_is_given_if_a_day_has_none_or_another_currency() -> None:
    assert month_savings([DAY | {"cost": None}], TODAY)["cost"] is None
    assert month_savings([DAY | {"currency": "USD"}], TODAY)["cost"] is None
    assert month_savings([DAY | {"basis": "0% measured"}], TODAY)["known"] == "partly measured"


def test_no_saving_if_no_node_slept() -> None:
    assert month_savings([], today_savings(SavingStatus()))["energy_j"] is None
