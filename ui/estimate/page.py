"""The page of `offpeak estimate --report`, for people who decide about a cluster and have never seen one.

One number, the bill, the measures, the waits of users, the effort, and how sure it all is. Settings and assumptions are
for the administrator: they open on a screen, and are not printed.
"""

import re
from html import escape

from offpeak.display import co2_text, duration_text, energy_text, figure, money_text, percent_text
from offpeak.model.constants import HOUR_S, MINUTE_S, WEEK_S, YEAR_S
from offpeak.model.units import parse_duration_s
from offpeak.model.zones import date_text
from offpeak.prices.tariff import Tariff
from offpeak.sim_backend.estimate import CapabilitySaving
from offpeak.text import counted
from offpeak.ui.estimate.text import (
    LeversAnswer,
    assumed_prices_lines,
    assumptions,
    fragment,
    headline,
    is_far,
    lever_lines,
    no_range_lines,
    sureness,
    unmeasured_lines,
    use_lines,
)
from offpeak.ui.replay.comparison import prices_text
from offpeak.ui.replay.likeness import NOT_CLAIMED
from offpeak.ui.report.bars import ChartBar, ChartColumn, bars_section, columns_section
from offpeak.ui.report.figure import Key
from offpeak.ui.report.page import bullets, definitions, paragraph, section, still_page


def estimate_page(answer: LeversAnswer) -> str:
    """Return the page: HTML without a script."""
    sections = [*_bill(answer), *_measures(answer), *_waits(answer), *_effort(answer), _sure(answer), _details(answer)]
    return still_page(f"{answer.estimate.trace.name}: what pays", _head(answer), sections)


def _head(answer: LeversAnswer) -> str:
    estimate, best = answer.estimate, answer.recommended
    used, aligned = estimate.used, estimate.comparison.case.prices.aligned
    first, last = (date_text(second + aligned.offset_s, aligned.zone) for second in (used.begin_s, used.until_s))
    year = YEAR_S / max(used.until_s - used.begin_s, 1)
    cost = money_text(used.cost.middle, used.currency)
    facts = (
        ("period", f"{first} to {last}, {counted(len(estimate.prepared.case.jobs), 'job')}"),
        ("cluster", f"{counted(estimate.prepared.basis.nodes, 'computer')}, called nodes"),
        ("used", f"{energy_text(used.energy_kwh.middle, 0)}, {cost} ({figure(year * used.cost.middle)} a year)"),
        ("prices", prices_text(estimate.prepared.basis).partition(";")[0]),
        ("taxes", tax_text(aligned.tariff)),
        *([] if used.co2_kg is None else [("emitted", co2_text(used.co2_kg))]),
    )
    if is_far(estimate):
        result = [paragraph(NOT_CLAIMED, css_class="answer")]
    elif best is None:
        text = "No measure is certain to save money here without making users wait."
        result = [paragraph(text, css_class="answer")]
    else:
        saving, money = best.saving, best.saving.a_year
        held = f"{money.low:,.0f} to {money.high:,.0f} {used.currency} in 19 of 20 periods like this one; "
        small = f"{held * saving.has_range}{energy_text(saving.energy_kwh, 0)} of electricity"
        advice = f"{_share_text(saving)}, if we {_decapitalized(measure_text(saving.policy))}. {_felt(saving)}"
        amount = f"{money.middle:,.0f} {used.currency} a year"
        result = [
            f'<p class="hero">{escape(amount)} <small>{escape(small)}</small></p>',
            paragraph(advice, css_class="answer"),
        ]
    title = f"<h1>{escape(estimate.trace.name)}: what offpeak would save on electricity</h1>"
    assumed = map(paragraph, assumed_prices_lines(estimate))
    return "\n".join(["<header>", title, *result, *assumed, definitions(facts), "</header>"])


def tax_text(tariff: Tariff | None) -> str:
    """Return which taxes and fees bill and saving include."""
    if tariff is None or not (tariff.fees or tariff.vat_percent):
        return "bill and saving have those that the prices above include, no others"
    named = [fee.title.replace("_", " ") for fee in tariff.fees]
    if tariff.vat_percent:
        named.append(f"tax of {tariff.vat_percent:g} %")
    return f"bill and saving include {', '.join(named)}"


def _share_text(saving: CapabilitySaving) -> str:
    """Return the share of the bill with its range."""
    share = saving.share_pct
    held = f"{share.middle:z.1f} ({share.low:z.1f} to {share.high:z.1f}) %"
    return f"{held if saving.has_range else percent_text(share.middle, 1)} of the electricity bill"


def _felt(saving: CapabilitySaving) -> str:
    """Return in a sentence what users notice of a measure."""
    if saving.longer_run:
        return f"Jobs run {percent_text(100 * saving.longer_run, 1)} longer."
    if saving.capability == "tiers":
        return f"Only jobs whose owners agree wait, {duration_text(saving.wait_change_s)} longer on average."
    change = duration_text(abs(saving.wait_change_s))
    wait = "Users wait as long as today"
    if not saving.wait_is_noise and change != duration_text(0):
        wait = f"Users wait {change} {'longer' if saving.wait_change_s > 0 else 'less'} on average"
    boot = duration_text(saving.boot_delay_s) if saving.boot_delay_s else ""
    return f"{wait}; a job whose computers are off waits {boot} until they are on." if boot else f"{wait}."


def _bill(answer: LeversAnswer) -> list[str]:
    weekly, estimate = answer.weekly, answer.estimate
    if weekly is None or len(weekly.cost) < 2:
        return []
    aligned, currency = estimate.comparison.case.prices.aligned, estimate.used.currency
    is_dated = estimate.spreads[0].alignments == 1
    columns = []
    for number, (cost, without) in enumerate(zip(weekly.cost, weekly.without, strict=True)):
        day = date_text(weekly.begin_s + number * WEEK_S + aligned.offset_s, aligned.zone)
        name = day[5:] if is_dated else f"week {number + 1}"
        text = f"week from {day}" if is_dated else name
        both = f"{money_text(cost, currency)} with offpeak, {money_text(without, currency)} without"
        columns.append(ChartColumn(name, cost, without, f"{text}: {both}"))
    keys = Key("with offpeak", "var(--busy)", is_area=True), Key("as today", "var(--text)")
    caption = f"What the electricity of each week costs, in {currency}: with the recommended measure, and as today."
    return [columns_section("The bill, week by week", columns, keys, caption)]


def _measures(answer: LeversAnswer) -> list[str]:
    """Return the chart of what each measure saves, and why the recommended one is not the one that saves most."""
    best = answer.recommended
    savings = [saving for saving in answer.savings if not saving.is_noise]
    if is_far(answer.estimate) or not (savings or best):
        return []
    currency = answer.estimate.used.currency
    if best:
        savings = [best.saving, *(saving for saving in savings if saving.policy != best.saving.policy)]
    bars = [
        ChartBar(
            name=measure_text(saving.policy),
            value=saving.a_year.middle,
            text=f"{saving.a_year.middle:,.0f} {currency}",
            low=saving.a_year.low if saving.has_range else None,
            high=saving.a_year.high if saving.has_range else None,
            note="recommended; " * is_chosen + _share_text(saving),
            is_strong=is_chosen,
        )
        for saving in savings
        for is_chosen in [best is not None and saving is best.saving]
    ]
    caption = f"Saved a year, in {currency}. The thin line is the range for 19 of 20 periods like this one."
    others = [_decapitalized(measure_text(saving.policy)) for saving in answer.savings if saving.is_noise]
    chance = f" Not significant here: {'; '.join(others)}." if others else ""
    chart = bars_section("What each measure saves", bars, caption + chance)
    return [chart] if best is None else [chart, section("Why this one", paragraph(_reason(answer, best.saving)))]


LITTLE_LONGER_S = 600


def _reason(answer: LeversAnswer, chosen: CapabilitySaving) -> str:
    most = max((saving for saving in answer.savings if saving.pays), key=lambda s: s.a_year.middle, default=chosen)
    more = most.a_year.middle - chosen.a_year.middle
    overlap = "Measures overlap: two of them together save less than the sum."
    if most.policy == chosen.policy or more <= 0:
        return f"No other measure saves more. {overlap}"
    name, money = _decapitalized(measure_text(most.policy)), money_text(more, answer.estimate.used.currency)
    text = f"Another measure would save {money} more a year ({name})"
    is_close = most.share_pct.low <= chosen.share_pct.high
    if is_close and most.wait_change_s - chosen.wait_change_s < LITTLE_LONGER_S:
        return f"{text}. That difference may be due to chance, and this measure is more predictable. {overlap}"
    return f"{text}, but its side effects are too large: {_decapitalized(_felt(most))} {overlap}"


def _waits(answer: LeversAnswer) -> list[str]:
    """Return how much longer or less jobs wait with each measure: a chart only where there is a difference."""
    estimate, best, used = answer.estimate, answer.recommended, answer.estimate.used
    if best is None or is_far(estimate):
        return []
    others = (saving for saving in answer.savings if not saving.is_noise and saving.policy != best.saving.policy)
    bars = [
        ChartBar(
            name=measure_text(saving.policy),
            value=saving.wait_change_s,
            text=f"{'+' if saving.wait_change_s > 0 else '-'}{duration_text(abs(saving.wait_change_s))}",
            is_strong=saving is best.saving,
        )
        for saving in (best.saving, *others)
        if not (saving.wait_is_noise or saving.longer_run or saving.capability in ("tiers", "devices"))
        and duration_text(abs(saving.wait_change_s)) != duration_text(0)
    ]
    today = f"A job waits {duration_text(estimate.spreads[0].figures['mean_wait_s'].middle)} on average today."
    idle = (
        f"Jobs wait {percent_text(100 * used.waiting_share)} of the time, and still"
        f" {percent_text(100 * (1 - used.utilization))} of the computers are idle on average: a job starts only when"
        " all computers that it needs are free at the same time."
    )
    if not bars:
        text = f"{today} The measures above do not change that significantly."
        return [section("What users notice", paragraph(f"{text} {idle}"))]
    caption = f"{today} The bars show how much longer (+) or less (-) it waits with each measure; others are as today."
    return [bars_section("What users notice", bars, f"{caption} {idle}")]


def _effort(answer: LeversAnswer) -> list[str]:
    """Return what the recommended measure costs, what staff must do, what can go wrong, and how to stop."""
    if answer.recommended is None or is_far(answer.estimate):
        return []
    cycles = answer.recommended.saving.cycles_per_node_day
    risk = "No job is cancelled."
    if cycles:
        risk = (
            "No job is cancelled, and a computer with a job is never switched off. Each computer is switched off"
            f" {cycles:.1f} times a day on average, at most {answer.settings.agent.cycles_per_day} times: ask the maker"
            " whether the warranty covers that. A computer that does not start again is left to the administrator."
        )
    terms = (
        ("cost", "None: offpeak is free software and needs no new hardware where computers have a remote control."),
        (
            "work",
            "The administrator installs offpeak and lets it watch for a week, in which it only records what it would"
            " do. Then you decide. How many hours of work that is was not measured.",
        ),
        ("risk", risk),
        ("to stop", "One setting, at any time: offpeak then only watches again. The guide says how to remove it."),
    )
    return [section("What it takes", definitions(terms))]


def _sure(answer: LeversAnswer) -> str:
    estimate, used = answer.estimate, answer.estimate.used
    replayed = duration_text(estimate.spreads[0].figures["mean_wait_s"].middle)
    real = f"in reality it waited {duration_text(used.mean_wait_s)}"
    if estimate.are_starts_replayed:
        real = "and how long it waited in reality is not known, because the log has no start times"
    lines = [
        "We replayed the jobs of this period on a simulated copy of the cluster. There a job waits"
        f" {replayed} on average, {real}.",
        "A year is this period scaled up: other seasons and other jobs are not included.",
        "If all prices rise by a tenth, so does the saving. If cheap hours move, estimate again.",
    ]
    if assumed := estimate.prepared.basis.assumed:
        # The option that declares each of them is for the administrator.
        named = "; ".join(re.sub(r" \(--[^)]*\)", "", name) for name in assumed)
        lines.append(f"Assumed, and not covered by the ranges: {named}. Other values can change the result a lot.")
    if estimate.prepared.power.assumed:
        lines.append("How much power the computers draw is assumed. A measurement would narrow the ranges.")
    if used.co2_kg is None:
        lines.append("CO2 is not included: how much CO2 the electricity of each hour causes was not given.")
    return section("How sure is this?", bullets(lines))


def _details(answer: LeversAnswer) -> str:
    """Return what an administrator needs: it is not printed."""
    estimate, settings = answer.estimate, fragment(answer)
    lines = (*use_lines(estimate.used), *lever_lines(answer), *no_range_lines(answer), *assumptions(estimate))
    missing = unmeasured_lines(answer.levers)
    parts = [
        paragraph(headline(estimate)),
        *([f'<pre class="command">{escape(settings)}</pre>'] if settings else []),
        bullets((*sureness(estimate), *lines, *missing)),
    ]
    inside = "\n".join(parts)
    return f'<details class="on-screen">\n<summary><h2>For the administrator</h2></summary>\n{inside}\n</details>'


def measure_text(policy: str) -> str:
    """Return what a policy does in words that need no knowledge of clusters."""
    order, _, capacity = policy.partition("+")
    if capacity:
        return f"{measure_text(capacity)}, and {_decapitalized(measure_text(order))}"
    name, _, value = policy.partition(":")
    first = value.partition(":")[0]
    if name == "timeout":
        return f"Switch off computers that have had no work for {_time_text(first)}"
    if name == "forecast":
        return f"Switch off computers that are hardly needed in the next {_time_text(first).removeprefix('an ')}"
    if name == "profile":
        return "Use fewer computers in the expensive hours"
    if policy in MEASURES:
        return MEASURES[policy]
    if policy.startswith(("T1", "T2")):
        share, _, delay = policy.partition(", ")[2].partition(" of jobs up to ")
        return f"Let {share.replace('%', ' %')} of the jobs wait up to {_time_text(delay)} for cheap hours"
    if policy.startswith("peak_target "):
        return f"Keep the power of the cluster below {policy.removeprefix('peak_target ').replace('kW', ' kW')}"
    return f"Limit the power of busy computers ({policy})" if " above " in policy else policy


MEASURES = {
    "break-even": "Switch off idle computers as soon as that saves more than the restart costs",
    "greedy": "Start jobs that need much power when electricity is cheap",
    "knapsack": "Fill free computers with the jobs that need most power when electricity is cheap",
    "PV and battery": "Use a solar plant and a battery",
    "battery": "Use a battery",
}


def _time_text(text: str) -> str:
    seconds = parse_duration_s(text)
    if seconds == HOUR_S:
        return "an hour"
    return counted(seconds // MINUTE_S, "minute") if seconds < HOUR_S else counted(seconds // HOUR_S, "hour")


def _decapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]
