"""Nodes from NetBox: devices as its list exports them in CSV, or as its API answers in JSON."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import BadInventory
from offpeak.machines.found import Found

HINT = "export devices with the columns Name, Status, Type, Rack, Out-of-band IP, or as JSON from /api/dcim/devices/"
NAMES = {
    "name": ("name",),
    "status": ("status",),
    "kind": ("device_type", "device type", "type"),
    "rack": ("rack",),
    "bmc": ("oob_ip", "out-of-band ip", "oob ip"),
}


def netbox_nodes(text: bytes, path: Path) -> tuple[Found, ...]:
    """Return the devices that are active; BadInventory with the file and a hint if it holds none.

    The out-of-band address of a device (NetBox 3.7 and later) is its BMC's.
    """
    rows = _from_json(text) if text.lstrip()[:1] in (b"{", b"[") else _from_csv(text)
    found = tuple(_found(row, path) for row in rows if (_said(row, "status") or "active").lower() == "active")
    if not found:
        raise BadInventory(f"{path}: holds no active device of NetBox", hint=HINT)
    return found


def _from_csv(text: bytes) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text.decode("utf-8-sig", errors="replace"))))


def _from_json(text: bytes) -> list[dict[str, Any]]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return []
    rows = parsed.get("results", [parsed]) if isinstance(parsed, dict) else parsed
    return [row for row in rows if isinstance(row, dict)]


def _found(row: Mapping[str, Any], path: Path) -> Found:
    node, kind = _said(row, "name"), _said(row, "kind")
    if node is None or kind is None:
        raise BadInventory(f"{path}: a device without {'name' if node is None else 'type'}", hint=HINT)
    bmc = _said(row, "bmc")
    return Found(node, kind, bmc and bmc.partition("/")[0], _said(row, "rack"))


def _said(row: Mapping[str, Any], what: str) -> str | None:
    """Return the cell, whatever its column is called, as the text that stands for a table in JSON."""
    for key, cell in row.items():
        if key is not None and key.strip().lower() in NAMES[what]:
            return _text(cell)
    return None


def _text(cell: object) -> str | None:
    if isinstance(cell, dict):
        cell = next((cell[key] for key in ("address", "slug", "value", "name") if cell.get(key)), None)
    return cell.strip() or None if isinstance(cell, str) else None
