"""Where a job would go, as programs and portals are told."""

import time
from typing import Any

from plugin.federation.choice import choice_json
from power.broker.federation import Federation
from power.broker.parcel import Parcel


def choice_of(federation: Federation, parcel: Parcel) -> dict[str, Any]:
    """Return the choice as `choice_json` has it; BadInput for a feature or an application that no site has."""
    choice = federation.choose(parcel.request, without=parcel.not_at(federation.grid))
    return choice_json(choice, now_s=int(time.time()), currency=federation.currency)
