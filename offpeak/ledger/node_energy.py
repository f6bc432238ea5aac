"""What meters said that nodes used, and what that cost."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import tzinfo

from sqlalchemy import Connection

from offpeak.ledger.slot_sums import measured
from offpeak.ledger.used import Period, Used, periods
from offpeak.ledger.way_sums import Sums, chosen, used
from offpeak.time_range import TimeRange


def node_energy(connection: Connection, span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[Used]:
    """Return a row for each group of days and nodes that were measured, in their order.

    BadInput where prices of that time are in two currencies.
    """
    days = periods(span, by, zone)
    found, currency = measured(connection, days)
    groups: dict[tuple[str, ...], Sums] = defaultdict(Sums)
    for (period, node), ways in found.items():
        names = {"day": days[period].name, "node": node}
        groups[tuple(names[name] for name in by)].add(chosen(ways, _length_s(days[period])))
    return [used(of, sums, currency) for of, sums in sorted(groups.items(), key=lambda group: group[0])]


def spans_energy(
    connection: Connection, spans: Sequence[TimeRange], nodes: Sequence[Collection[str]]
) -> list[dict[str, Used]]:
    """Return for each span, none of which is empty, what its nodes used, by node; those that nobody measured lack.

    All are asked for at once. BadInput as `node_energy`.
    """
    each = [Period("", span.from_unix_s, span.until_unix_s) for span in spans]
    answers: list[dict[str, Used]] = [{} for _ in spans]
    if spans:
        found, currency = measured(connection, each, nodes)
        for (number, node), ways in found.items():
            answers[number][node] = used((node,), chosen(ways, _length_s(each[number])), currency)
    return answers


def _length_s(period: Period) -> float:
    return period.until_unix_s - period.from_unix_s
