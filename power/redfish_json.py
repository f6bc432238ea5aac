"""What Redfish services answer: nested JSON objects of which any part may be missing or of another kind."""

import json
from typing import Any

from offpeak.text import printable

Resource = dict[str, Any]


def inside(value: Any, *keys: str) -> Any:
    """Return what is below those keys of nested JSON objects, None where there is nothing."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def links(value: Any) -> tuple[str, ...]:
    """Return the addresses of a list of links to resources, () if it is none."""
    found = (inside(link, "@odata.id") for link in value) if isinstance(value, list) else ()
    return tuple(link for link in found if isinstance(link, str))


def message_of(body: bytes) -> str:
    """Return what an error's body says for people, "" if it says nothing."""
    try:
        told = inside(json.loads(body), "error")
    except (ValueError, RecursionError):
        return ""
    details = inside(told, "@Message.ExtendedInfo")
    message = inside(details[0], "Message") if isinstance(details, list) and details else None
    return printable(str(message or inside(told, "message") or ""))
