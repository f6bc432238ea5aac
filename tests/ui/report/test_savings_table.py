"""The table of policies: the terminal's cells, or means with their ranges."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.display import figure, percent_text
from offpeak.model.constants import WEEK_S, YEAR_S
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import DEFAULT_SLA
from offpeak.settings.replay import SchedulingSettings
from offpeak.settings.table import CapacitySettings
from offpeak.sim_backend.case.replay_case import fleet_of
from offpeak.sim_backend.comparison.replications import SLEEP_FIGURES, ReplicationSpread, replay_often
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.ui.replay.comparison import policy_row, policy_units
from offpeak.ui.replay.tables import sleep_row
from offpeak.ui.report.page import answer
from offpeak.ui.report.subject import ReportSubject, with_demand_charges
from offpeak.ui.report.tables import FIGURES, ONE_REPLAY, glossary_section, savings_section, summary_section

Make = Callable[..., ReportSubject]


def cells(section: str, *, table: int = 1) -> list[list[str]]:
    """Return the text of the cells of each row of the body of a table."""
    rows = re.findall(r"<tr>(.*?)</tr>", section.split("<tbody>")[table])
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]


def test_without_replays_it_is_the_terminals_table_and_says_what_it_cannot_tell(subject: ReportSubject) -> None:
    section = savings_section(subject)
    first, second = subject.comparison.outcomes
    units = policy_units(subject.comparison.outcomes)
    rows = [list(policy_row(first, units, is_first=True)), list(policy_row(second, units, is_first=False))]
    assert cells(section) == rows
    assert ONE_REPLAY in section


def test_the_first_table_has_a_year_of_money_energy_co2_and_sleep(make: Make) -> None:
    subject = make(450, "easy", "greedy", carbon="400g/kWh", capacities=("timeout:5min",))
    comparison = subject.comparison
    length_s = comparison.until_s - comparison.begin_s
    assert length_s > WEEK_S
    section = summary_section(subject)
    headers = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', section)
    assert headers == [
        *("policy", "EUR a year", "saved a year", "saved", "MWh a year", "mean wait", "longest delay"),
        *("idle energy saved", "CO2 t a year"),
    ]
    (_, *first), (_, *other) = cells(section)
    easy, greedy = comparison.outcomes
    before, after = (YEAR_S / (each.until_s - comparison.begin_s) for each in (easy, greedy))
    number = [float(text.replace(",", "")) for text in (first[0], other[0], other[1])]
    assert number[0] == pytest.approx(before * easy.cost, abs=0.51)
    assert number[2] == pytest.approx(after * (greedy.baseline.cost - greedy.cost), abs=0.51)
    assert float(other[3].replace(",", "")) == pytest.approx(after * greedy.energy_kwh / 1000, abs=0.006)
    assert float(other[7].replace(",", "")) == pytest.approx(after * (greedy.co2_kg or 0.0) / 1000, abs=0.006)


def test_a_log_of_hours_is_not_scaled_to_a_year(make: Make) -> None:
    section = summary_section(make(20))
    assert "a year" not in section
    assert "EUR in all" in section


def test_each_policy_is_explained_once(make: Make) -> None:
    subject = make(30, "easy", "fcfs+greedy", capacities=("always-on", "timeout:5min"))
    names = re.findall(r"<dt>(.*?)</dt><dd>.+?</dd>", glossary_section(subject))
    assert sorted(names) == ["easy", "fcfs", "greedy", "timeout:5min"]


def test_emissions_are_a_column_of_their_own(make: Make) -> None:
    section = savings_section(make(30, carbon="400g/kWh"))
    assert "CO2 kg</th>" in section
    assert all(len(row) == len(FIGURES) for row in cells(section))


def test_one_policy_alone_has_no_ranges(make: Make) -> None:
    assert ONE_REPLAY not in savings_section(make(30, "easy"))


def test_with_replays_cells_are_means_with_ranges_and_chance_is_called_so(make: Make) -> None:
    policies = tuple(parse_policy(name, SchedulingSettings()) for name in ("easy", "greedy"))
    plain = make(60)
    spreads = replay_often(plain.comparison.case, policies, replays=4, seed=1)
    section = savings_section(make(60, spreads=spreads))
    row = cells(section)[1]
    saving = spreads[1].figures["saving_pct"]
    assert row[2].startswith(f"{saving.mean:z.2f} % ({saving.low:z.2f} to {saving.high:z.2f})")
    assert row[2].endswith("not significant") == spreads[1].is_noise("saving_pct")
    assert "not significant" not in "".join(cells(section)[0])
    assert "Means of 4 replays" in section


def test_nodes_that_sleep_have_a_table_of_their_own(sleeping: ReportSubject) -> None:
    section = savings_section(sleeping)
    assert section.count("<table>") == 2
    assert cells(section, table=2) == [list(sleep_row(outcome)) for outcome in sleeping.comparison.outcomes]
    assert f"SLA: slowdown of {DEFAULT_SLA:g}." in section


def test_with_replays_the_figures_of_sleep_have_their_ranges(make: Make) -> None:
    capacities = ("always-on", "timeout:5min")
    plain = make(60, "easy", capacities=capacities)
    settings = CapacitySettings(policies=capacities)
    easy, fleet = parse_policy("easy", SchedulingSettings()), fleet_of(plain.comparison.case)
    policies = tuple(easy.on(make_capacity_policy(name, fleet, settings)) for name in capacities)
    spreads = replay_often(plain.comparison.case, policies, replays=4, seed=1)
    first, second = cells(savings_section(make(60, "easy", capacities=capacities, spreads=spreads)), table=2)
    saved = spreads[1].figures["idle_saved_pct"]
    assert second[1].startswith(f"{saved.mean:.1f} % ({saved.low:.1f} to {saved.high:.1f})")
    assert len(second) == 1 + len(SLEEP_FIGURES)
    assert first[1] == "0.0 %"


def test_with_a_demand_charge_the_first_table_is_of_the_whole_bill(make: Make, tmp_path: Path) -> None:
    energy = '[[energy]]\nprice = "60EUR/MWh"\nhours = "09:00-21:00"\n[[energy]]\nprice = "30EUR/MWh"\nhours = "else"\n'
    (tmp_path / "tariff.toml").write_text(f'currency = "EUR"\n{energy}[[demand]]\nprice = "10EUR/kW"\nper = "month"\n')
    spread = ReplicationSpread("greedy", 20, {}, {})
    subject = make(150, "easy", "greedy", tariff=str(tmp_path / "tariff.toml"))
    first, second = subject.comparison.outcomes
    assert first.bill is not None
    assert first.bill > first.cost
    billed = with_demand_charges(subject)
    text = summary_section(billed)
    assert "; money is the whole bill, with demand charges" in text
    (_, shown, *_), (_, _, _, saving, *_) = cells(text)
    assert float(shown.replace(",", "")) == pytest.approx(first.bill, abs=0.006)
    assert saving == percent_text(second.bill_saving_pct or 0.0, 1)
    assert f"of {figure(first.bill)} EUR" in answer(billed)
    assert ">cost without demand charge EUR</th>" in savings_section(subject)
    # The replays of a calculation may leave demand charges out.
    unknown = replace(subject, spreads=(spread,))
    assert with_demand_charges(unknown) is unknown
    assert "; money is without demand charges" in summary_section(replace(subject, spreads=()))
