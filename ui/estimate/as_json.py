"""An estimate as JSON: the text's figures and more, with the units in the keys."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from power.capacity.levers import Lever
from sim_backend.estimate import SavingsEstimate, reasons
from ui.replay.basis_text import basis_json
from ui.replay.comparison_table import remarks, unlike_remark


def estimate_json(estimate: SavingsEstimate, levers: Sequence[Lever]) -> str:
    """Return the estimate as a JSON object; `levers` is empty where they are not measured."""
    laid = estimate.comparison.case.prices.laid
    document = {
        "log": estimate.trace.name,
        "jobs": len(estimate.prepared.case.jobs),
        "machine_size": estimate.comparison.case.machine.size,
        "units_per_node": estimate.prepared.units_per_node,
        "prices": laid.series.source,
        **basis_json(estimate.prepared.basis),
        "unix_offset_s": laid.offset_s,
        "used": asdict(estimate.used),
        "power_assumed": estimate.prepared.power.assumed,
        "savings": [asdict(saving) for saving in estimate.savings],
        "levers": [asdict(lever) for lever in levers],
        "hardly_pays": estimate.hardly_pays,
        "policies": [asdict(spread) for spread in estimate.spreads],
        "reasons": reasons(estimate),
        "notes": [
            *unlike_remark(estimate.comparison),
            *remarks(estimate.trace, estimate.prepared, estimate.comparison),
        ],
    }
    return json.dumps(document, indent=2)
