"""A what-if as JSON: the table's figures in seconds and units, and all steps."""

import json
from dataclasses import asdict

from power.whatif.simulation import WhatIfPlan, find_sleep_times
from ui.replay.whatif_table import WhatIf


def whatif_json(answer: WhatIf) -> str:
    """Return the what-if as a JSON object."""
    snapshot, decision = answer.snapshot, answer.decision
    document = {
        "now_s": snapshot.now_s,
        "units_per_node": snapshot.units_per_node,
        "policy": answer.policy,
        "sla": decision.sla,
        "met": decision.met,
        "nodes": decision.units // snapshot.units_per_node,
        "units": decision.units,
        "curve": [plan_document(plan) for plan in answer.plans],
        "sleep": [asdict(step) for step in find_sleep_times(snapshot, decision.plan)],
    }
    return json.dumps(document, indent=2)


def plan_document(plan: WhatIfPlan) -> dict[str, float]:
    """Return a plan's figures."""
    return {
        "units": plan.units,
        "slowdown": plan.slowdown,
        "mean_wait_s": plan.mean_wait_s,
        "until_s": plan.until_s,
    }
