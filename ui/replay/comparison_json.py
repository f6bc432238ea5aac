"""A comparison as JSON: the table's figures and more, with the units in the keys."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from offpeak.model.jobs import Trace
from sim_backend.breakdown import BreakdownRow
from sim_backend.case import PreparedCase
from sim_backend.compare import Comparison
from sim_backend.replications import ReplicationSpread
from ui.replay.basis_text import basis_json
from ui.replay.comparison_table import unlike_remark


def comparison_json(
    trace: Trace,
    prepared: PreparedCase,
    comparison: Comparison,
    spreads: Sequence[ReplicationSpread],
    breakdowns: dict[str, tuple[tuple[BreakdownRow, ...], ...]],
) -> str:
    """Return the comparison as a JSON object; `breakdowns` holds the rows of each policy by kind of group."""
    case = comparison.case
    document: dict[str, Any] = {
        "log": trace.name,
        "machine_size": case.machine.size,
        "units_per_node": prepared.units_per_node,
        "prices": case.prices.laid.series.source,
        **basis_json(prepared.basis),
        "begin_s": comparison.begin_s,
        "until_s": comparison.until_s,
        "unix_offset_s": case.prices.laid.offset_s,
        "notes": [*unlike_remark(comparison), *prepared.case.notes_until(comparison.until_s), *prepared.notes],
        "rejected": [
            {"reason": rejected.reason, "jobs": len(rejected.job_ids), "job_ids": rejected.job_ids}
            for rejected in prepared.rejected
        ],
        "skipped_lines": trace.skipped_lines,
        "policies": [asdict(outcome) for outcome in comparison.outcomes],
    }
    for kind, of_policies in breakdowns.items():
        for policy, rows in zip(document["policies"], of_policies, strict=True):
            policy[f"by_{kind}"] = [asdict(row) for row in rows]
    if spreads:
        document["replays"] = [asdict(spread) for spread in spreads]
    return json.dumps(document, indent=2)
