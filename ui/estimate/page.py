"""The page of `offpeak estimate --report`, for people who decide about a cluster and have never seen one.

One number, three charts (the bill, the measures, the waits of users), the reason of the recommendation, and how sure it
is. Settings and assumptions are for the administrator: they open on a screen, and are not printed.
"""

import re
from html import escape
from pathlib import Path

from offpeak.display import co2_text, duration_text, energy_text, figure, money_text, percent_text
from offpeak.files import replacing
from offpeak.model.constants import HOUR_S, MINUTE_S, WEEK_S, YEAR_S
from offpeak.model.units import parse_duration_s
from offpeak.model.zones import date_text
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


def write_estimate_page(path: Path, answer: LeversAnswer) -> None:
    """Write the page; raise CannotWrite on failure, without a partial file."""
    with replacing(path) as file:
        name = answer.estimate.trace.name
        sections = [
            *_bill(answer),
            *_measures(answer),
            *_waits(answer),
            _reasons(answer),
            _sure(answer),
            _details(answer),
        ]
        file.write(still_page(f"{name}: what pays", _head(answer), sections).encode())


def _head(answer: LeversAnswer) -> str:
    estimate, best = answer.estimate, answer.recommended
    used = estimate.used
    offset_s, zone = estimate.comparison.case.prices.aligned.offset_s, estimate.comparison.case.prices.aligned.zone
    first, last = (date_text(second + offset_s, zone) for second in (used.begin_s, used.until_s))
    year = YEAR_S / max(used.until_s - used.begin_s, 1)
    cost = money_text(used.cost.middle, used.currency)
    facts = (
        ("period", f"{first} to {last}, {counted(len(estimate.prepared.case.jobs), 'job')}"),
        ("cluster", f"{counted(estimate.prepared.basis.nodes, 'computer')}, called nodes"),
        ("used", f"{energy_text(used.energy_kwh.middle, 0)}, {cost} ({figure(year * used.cost.middle)} a year)"),
        ("prices", prices_text(estimate.prepared.basis).partition(";")[0]),
        *([] if used.co2_kg is None else [("emitted", co2_text(used.co2_kg))]),
    )
    parts = [f"<header>\n<h1>{escape(estimate.trace.name)}: what offpeak would save on electricity</h1>"]
    if best is None or is_far(estimate):
        text = (
            NOT_CLAIMED if is_far(estimate) else "No measure is certain to save money here without making users wait."
        )
        parts.append(paragraph(text, css_class="answer"))
    else:
        assert answer.recommended is not None
        saving, currency = answer.recommended.saving, answer.estimate.used.currency
        money = saving.a_year
        held = (
            f"{money.low:,.0f} to {money.high:,.0f} {currency} in 19 of 20 periods like this one; " * saving.has_range
        )
        small = f" <small>{escape(held)}{energy_text(saving.energy_kwh, 0)} of electricity</small>"
        parts += [
            f'<p class="hero">{money.middle:,.0f} {escape(currency)} a year{small}</p>',
            paragraph(_advice(answer), css_class="answer"),
        ]
    parts += map(paragraph, assumed_prices_lines(estimate))
    return "\n".join([*parts, definitions(facts), "</header>"])


def _advice(answer: LeversAnswer) -> str:
    assert answer.recommended is not None
    saving = answer.recommended.saving
    share = percent_text(saving.share_pct.middle, 1)
    return f"{share} of the electricity bill, if we {_decapitalized(measure_text(saving.policy))}. {_felt(saving)}"


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
    savings = [saving for saving in answer.savings if not saving.is_noise]
    if not savings or is_far(answer.estimate):
        return []
    used, best = answer.estimate.used, answer.recommended
    chosen = best.saving.policy if best else ""
    savings.sort(key=lambda saving: (saving.policy != chosen, -saving.a_year.middle))
    if best and chosen not in [saving.policy for saving in savings]:
        savings.insert(0, best.saving)
    bars = [
        ChartBar(
            name=measure_text(saving.policy),
            value=saving.a_year.middle,
            text=f"{saving.a_year.middle:,.0f} {used.currency}",
            low=saving.a_year.low if saving.has_range else None,
            high=saving.a_year.high if saving.has_range else None,
            note="recommended; " * (saving.policy == chosen)
            + f"{percent_text(saving.share_pct.middle, 1)} of the bill",
            is_strong=saving.policy == chosen,
        )
        for saving in savings
    ]
    caption = f"Saved a year, in {used.currency}. The thin line is the range for 19 of 20 periods like this one."
    others = [measure_text(saving.policy) for saving in answer.savings if saving.is_noise]
    chance = f" Not significant here: {'; '.join(map(_decapitalized, others))}." if others else ""
    return [bars_section("What each measure saves", bars, caption + chance)]


def _waits(answer: LeversAnswer) -> list[str]:
    estimate, best = answer.estimate, answer.recommended
    if best is None or is_far(estimate):
        return []
    today_s = estimate.spreads[0].figures["mean_wait_s"].middle
    chosen = best.saving
    rows = [ChartBar("today", today_s, duration_text(today_s))]
    shown = [
        saving for saving in answer.savings if not saving.is_noise and saving.capability not in ("tiers", "devices")
    ]
    for saving in [chosen, *(each for each in shown if each.policy != chosen.policy)]:
        if not saving.longer_run and saving.capability not in ("tiers", "devices"):
            wait_s = today_s if saving.wait_is_noise else today_s + saving.wait_change_s
            note = "no significant difference" if saving.wait_is_noise else ""
            is_chosen = saving.policy == chosen.policy
            rows.append(
                ChartBar(measure_text(saving.policy), wait_s, duration_text(wait_s), note=note, is_strong=is_chosen)
            )
    caption = "How long a job waits on average before it starts, in hours and minutes."
    return [bars_section("What users notice", rows, caption)]


def _reasons(answer: LeversAnswer) -> str:
    """Return why this measure is recommended, and not the one that saves most."""
    best, used = answer.recommended, answer.estimate.used
    if best is None or is_far(answer.estimate):
        return ""
    parts = [f"We recommend this: {_decapitalized(measure_text(best.saving.policy))}."]
    most = max((each for each in answer.savings if each.pays), key=lambda each: each.a_year.middle, default=best.saving)
    more = most.a_year.middle - best.saving.a_year.middle
    if most.policy == best.saving.policy or more <= 0:
        parts.append("No other measure saves more.")
    else:
        saved = f"{money_text(more, used.currency)} more a year"
        text = f"Another measure would save {saved} ({_decapitalized(measure_text(most.policy))})"
        longer_s = most.wait_change_s - best.saving.wait_change_s
        if most.share_pct.low <= best.saving.share_pct.high and longer_s < LITTLE_LONGER_S:
            parts.append(f"{text}. That difference may be due to chance, and this measure is more predictable.")
        else:
            parts.append(f"{text}, but its side effects are too large: {_decapitalized(_felt(most))}")
    parts.append("Measures overlap: what two of them save together is less than the sum.")
    return section("Why this one", paragraph(" ".join(parts)))


LITTLE_LONGER_S = 600


def _sure(answer: LeversAnswer) -> str:
    estimate, used, best = answer.estimate, answer.estimate.used, answer.recommended
    replayed = duration_text(estimate.spreads[0].figures["mean_wait_s"].middle)
    real = f"in reality it waited {duration_text(used.mean_wait_s)}"
    if estimate.are_starts_replayed:
        real = "and how long it waited in reality is not known, because the log has no start times"
    lines = [
        "We replayed the jobs of this period on a simulated copy of the cluster. There a job waits"
        f" {replayed} on average, {real}.",
        "A year is this period scaled up: other seasons and other jobs are not included.",
    ]
    if assumed := estimate.prepared.basis.assumed:
        # The option that declares each of them is for the administrator.
        named = "; ".join(re.sub(r" \(--[^)]*\)", "", each) for each in assumed)
        lines.append(f"Assumed, and not covered by the ranges: {named}. Other values can change the result a lot.")
    if estimate.prepared.power.assumed:
        lines.append("How much power the computers draw is assumed. A measurement would narrow the ranges.")
    if best is not None and best.saving.cycles_per_node_day:
        often = f"{best.saving.cycles_per_node_day:.1f}"
        most = answer.settings.agent.cycles_per_day
        lines.append(
            f"Each computer is switched off {often} times a day on average, at most {most} times, and never while a job"
            " runs on it. Ask the maker whether the warranty covers that many restarts."
        )
    if used.co2_kg is None:
        lines.append("CO2 is not included: how much CO2 the electricity of each hour causes was not given.")
    step = (
        "Next step: the administrator lets offpeak watch for a week. It then only records what it would do. offpeak is"
        " free software."
    )
    return section("How sure is this?", bullets(lines), paragraph(step))


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
