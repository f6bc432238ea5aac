"""The ledger on a terminal, a line for each record or group with the total below, and for other programs as JSON
and CSV.

In JSON and CSV units are part of the keys, and times are numbers and text.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from offpeak.display import amount_text, money_text, percent_text, power_text, range_text, second_text
from offpeak.ledger.energy_use import EnergyUse
from offpeak.model.constants import J_PER_KWH, QUARTER_S
from offpeak.prices.tariff_file import site_tariff
from offpeak.services.accounts.account_of_savings import DEMAND, SavingsAccount, saving_text, shadow_text
from offpeak.ui.records import RecordRow
from offpeak.ui.terminal import TextTable, text_table

Record = Mapping[str, Any]

SPARE = ("rule", "answer")


def used_row(groups: Sequence[str], used: EnergyUse) -> RecordRow:
    """Return energy and cost of a group as a row."""
    values = {key: value for key, value in vars(used).items() if key != "of"}
    return dict(zip(groups, used.of, strict=True)) | values


def assumed_prices(share: float, zone: tzinfo) -> tuple[str, ...]:
    """Return a note on the share of priced time with an assumed tariff; nothing if it is zero."""
    if not share:
        return ()
    tariff = site_tariff(None, zone).description
    return (
        f"Prices: for {_share_text(share)} of the priced time none were set, and a tariff is assumed: {tariff}. The "
        "cost is based on that assumption; set your prices with [prices] or [feeds].",
    )


def _share_text(share: float) -> str:
    """Return a share above 0; neither a small one is nothing, nor a large one all."""
    if share < 0.01:
        return f"less than {percent_text(1)}"
    return f"more than {percent_text(99)}" if 0.99 < share < 1 else percent_text(100 * share)


def records_table(kind: str, records: Sequence[Record], zone: tzinfo) -> TextTable:
    """Return a line a record."""
    headers, cells = KINDS[kind]
    rows = (cells(record, zone) for record in records)
    return text_table(headers, rows, texts=range(len(headers)), spare=SPARE)


def used_table(kind: str, groups: Sequence[str], found: Sequence[EnergyUse]) -> TextTable:
    """Return a table with a row for each group ("energy" or "cost"), and the total if all have one currency."""
    of_jobs = found[0].covered is None
    paid = ("cost", "unpriced kWh", "CO2 kg") if kind == "cost" else ()
    # A site without carbon data has no CO2 at all, and needs no column that says so.
    some_carbon = kind == "cost" and any(used.carbon_g is not None for used in found)
    if some_carbon and any(used.without_carbon_j for used in found):
        paid = (*paid, "kWh without CO2")
    rows = [(*used.of, *_figures(used, paid), _known(used)) for used in found]
    if len(found) > 1 and len({used.currency for used in found}) == 1:
        jobs = f"{sum(used.jobs for used in found):,}" if of_jobs else ""
        rows.append(("total", *[""] * (len(groups) - 1), *_figures(_total(found), paid), jobs))
    headers = (*groups, "energy kWh", *paid, "jobs" if of_jobs else "covered")
    return text_table(headers, rows, texts=range(len(groups)))


def _figures(used: EnergyUse, paid: Sequence[str]) -> tuple[str, ...]:
    """Return the energy, and as many of the other figures as there are headers."""
    figures = (money_text(used.cost, used.currency), _kwh(used.unpriced_j), _kg(used.carbon_g))
    return (_kwh(used.energy_j), *(*figures, _kwh(used.without_carbon_j))[: len(paid)])


def _known(used: EnergyUse) -> str:
    return f"{used.jobs:,}" if used.covered is None else percent_text(100 * used.covered, 1)


def _total(found: Sequence[EnergyUse]) -> EnergyUse:
    costs = [used.cost for used in found if used.cost is not None]
    carbon_g = [used.carbon_g for used in found if used.carbon_g is not None]
    return EnergyUse(
        (),
        sum(used.energy_j for used in found),
        sum(costs) if costs else None,
        found[0].currency,
        sum(used.unpriced_j for used in found),
        sum(carbon_g) if carbon_g else None,
        without_carbon_j=sum(used.without_carbon_j for used in found),
    )


def _decision(record: Record, zone: tzinfo) -> tuple[str, ...]:
    numbers = ", ".join(f"{name} {_number(value)}" for name, value in record["inputs"])
    return second_text(record["at_unix_s"], zone), record["subject"], record["decided"], record["reason"], numbers


def _action(record: Record, zone: tzinfo) -> tuple[str, ...]:
    cells = tuple(record[name] for name in ("subject", "order", "by", "result", "rule", "said", "reason"))
    return second_text(record["at_unix_s"], zone), *cells


def _state(record: Record, zone: tzinfo) -> tuple[str, ...]:
    cells = tuple(record[name] for name in ("node", "observed", "desired", "by", "why"))
    return second_text(record["at_unix_s"], zone), *cells


def _saving(record: Record, zone: tzinfo) -> tuple[str, ...]:
    saved_j, saved = (
        None if record[after] is None or record[before] is None else record[before] - record[after]
        for before, after in (("baseline_energy_j", "energy_j"), ("baseline_cost", "cost"))
    )
    span = (second_text(record["from_unix_s"], zone), second_text(record["until_unix_s"], zone))
    lever = f"{record['lever']}, in shadow" if record["is_shadow"] else record["lever"]
    money = (money_text(saved, record["currency"]), range_text(record["low_cost"], record["high_cost"]))
    if record["lever"] == DEMAND:
        # A day has no saving of its own there: that of the period is below the table.
        peaks = [record[name] and power_text(record[name] / QUARTER_S) for name in ("energy_j", "baseline_energy_j")]
        known = f": {' instead of '.join(peaks)}" if all(peaks) else ""
        return *span, lever, record["baseline"], "", "", "", "", f"{record['basis']}{known}"
    return *span, lever, record["baseline"], _kwh(record["energy_j"]), _kwh(saved_j), *money, record["basis"]


def account_lines(account: SavingsAccount, shadow: SavingsAccount) -> list[str]:
    """Return the sums of the savings of a time: what was saved, and what shadow mode would have saved."""
    has_saved = account.levers or account.delays.jobs or not shadow.levers
    saved = [f"saved: {saving_text(account)}"] if has_saved else []
    return [*saved, *([f"in shadow mode: {shadow_text(shadow)}"] if shadow.levers else [])]


def _credit(record: Record, _: tzinfo) -> tuple[str, ...]:
    jobs, shifted = f"{record['jobs']:,}", _kwh(record["shifted_j"])
    saved, credit = (money_text(record[name], record["currency"]) for name in ("saved", "credit"))
    if record["credit"] is None and record["saved"] is not None:
        credit = ""  # The site pays none.
    return record["account"], record["tier"], jobs, shifted, saved, credit


KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Record, tzinfo], tuple[str, ...]]]] = {
    "decisions": (("time", "node", "decided", "why", "numbers"), _decision),
    "actions": (("time", "node", "order", "by", "result", "rule", "answer", "why"), _action),
    "states": (("since", "node", "observed", "desired", "by", "why"), _state),
    "credits": (("account", "tier", "jobs", "shifted kWh", "tier saved", "credit"), _credit),
    "savings": (
        ("from", "until", "lever", "against", "energy kWh", "saved kWh", "saved", "19 of 20", "basis"),
        _saving,
    ),
}


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kwh(energy_j: float | None) -> str:
    return amount_text(None if energy_j is None else energy_j / J_PER_KWH)


def _kg(carbon_g: float | None) -> str:
    return amount_text(None if carbon_g is None else carbon_g / 1000)
