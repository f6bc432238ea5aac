"""Writes nodes into an inventory: those of NetBox and RacksDB, and the identities that BMCs reported.

NetBox exports the list of its devices in CSV, and its API answers in JSON. RacksDB is read from the files of its
database, or from what `racksdb nodes --format yaml` or json prints. The admin's lines and comments stay.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import yaml

from offpeak.errors import BadInventory
from offpeak.files import is_there, read_bytes, replacing
from offpeak.machines.inventory import Enrolment
from offpeak.machines.node_sets import expand_in_order, fold


@dataclass(frozen=True)
class ImportedNode:
    """A node of another inventory: its kind, and its BMC's address and rack if given."""

    node: str
    hardware: str
    bmc: str | None = None
    rack: str | None = None


NETBOX_HINT = (
    "export devices with the columns Name, Status, Type, Rack, Out-of-band IP, or as JSON from /api/dcim/devices/"
)
NETBOX_COLUMNS = {
    "name": ("name",),
    "status": ("status",),
    "kind": ("device_type", "device type", "type"),
    "rack": ("rack",),
    "bmc": ("oob_ip", "out-of-band ip", "oob ip"),
}


def netbox_nodes(text: bytes, path: Path) -> tuple[ImportedNode, ...]:
    """Return the active devices, their out-of-band address (NetBox 3.7) as BMC. Raises BadInventory without any."""
    rows = _from_json(text) if text.lstrip()[:1] in (b"{", b"[") else _from_csv(text)
    found = tuple(_imported_node(row, path) for row in rows if (_cell(row, "status") or "active").lower() == "active")
    if not found:
        raise BadInventory(f"{path}: holds no active device of NetBox", hint=NETBOX_HINT)
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


def _imported_node(row: Mapping[str, Any], path: Path) -> ImportedNode:
    node, kind = _cell(row, "name"), _cell(row, "kind")
    if node is None or kind is None:
        raise BadInventory(f"{path}: a device without {'name' if node is None else 'type'}", hint=NETBOX_HINT)
    bmc = _cell(row, "bmc")
    return ImportedNode(node, kind, bmc and bmc.partition("/")[0], _cell(row, "rack"))


def _cell(row: Mapping[str, Any], what: str) -> str | None:
    """Return the cell of any of the column's names, or the text that represents a table in JSON."""
    for key, cell in row.items():
        if key is not None and key.strip().lower() in NETBOX_COLUMNS[what]:
            return _cell_text(cell)
    return None


def _cell_text(cell: object) -> str | None:
    if isinstance(cell, dict):
        cell = next((cell[key] for key in ("address", "slug", "value", "name") if cell.get(key)), None)
    return cell.strip() or None if isinstance(cell, str) else None


RACKSDB_HINT = "export it with: racksdb nodes --infrastructure NAME --format yaml"


def racksdb_nodes(text: bytes, path: Path) -> tuple[ImportedNode, ...]:
    """Return the nodes of the export, with a site's own field `bmc`. Raises BadInventory with the file and a hint."""
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        message = " ".join(str(problem).split())
        raise BadInventory(f"{path}: is no YAML: {message}", hint=RACKSDB_HINT) from None
    found = tuple(node for entry, rack in _entries(parsed) for node in _nodes(entry, rack, path))
    if not found:
        raise BadInventory(f"{path}: holds no node of RacksDB", hint=RACKSDB_HINT)
    return found


def _entries(parsed: object, rack: str | None = None) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Yield the entries of nodes at any depth below infrastructures, layouts and racks."""
    if isinstance(parsed, list):
        for each in parsed:
            yield from _entries(each, rack)
    elif isinstance(parsed, dict):
        if "name" in parsed and "type" in parsed:
            yield parsed, rack
            return
        if "layout" in parsed or "nodes" in parsed:
            rack = _name_of(parsed.get("rack")) or rack
            yield from _entries(parsed.get("layout", parsed.get("nodes")), rack)
            return
        for each in parsed.get("infrastructures", {}).values():
            yield from _entries(each, rack)


def _nodes(entry: Mapping[str, Any], rack: str | None, path: Path) -> Iterator[ImportedNode]:
    kind = _name_of(entry["type"])
    if not isinstance(entry["name"], str) or kind is None:
        raise BadInventory(f"{path}: {entry['name']!r} is not a node with a type", hint=RACKSDB_HINT)
    nodes = expand_in_order(entry["name"])
    bmcs = expand_in_order(entry["bmc"]) if entry.get("bmc") else (None,) * len(nodes)
    if len(bmcs) != len(nodes):
        raise BadInventory(f"{path}: {entry['name']}: {len(bmcs)} BMCs for {len(nodes)} nodes", hint="give one a node")
    for node, bmc in zip(nodes, bmcs, strict=True):
        yield ImportedNode(node, kind, bmc, _name_of(entry.get("rack")) or rack)


def _name_of(written: object) -> str | None:
    """Return a name that is written directly or as the `id` or `name` of a table."""
    if isinstance(written, dict):
        written = written.get("id", written.get("name"))
    return written if isinstance(written, str) else None


NEW_INVENTORY = """\
# The machines of this site. `offpeak check` shows whether all of them can be reached.
"""
ENROLMENT_COMMENT = (
    "Written by `offpeak enroll`: who answered at a node's BMC. Nothing is switched off whose identity has changed."
)


def write_enrolments(path: Path, enrolled: Mapping[str, Enrolment]) -> None:
    """Put the nodes' lines below [enrolled], in the order given; lines of other nodes stay."""
    document = _read_document(path)
    if "enrolled" not in document:
        table = tomlkit.table()
        table.comment(ENROLMENT_COMMENT)
        document.add(tomlkit.nl())
        document.add("enrolled", table)
    lines: Any = document["enrolled"]
    for node, enrolment in enrolled.items():
        line = tomlkit.inline_table()
        line.update(
            {"identity": enrolment.identity, "capabilities": list(enrolment.capabilities), "date": enrolment.date}
        )
        lines[node] = line
    _write_document(path, document)


def add_machines(path: Path, found: Sequence[ImportedNode]) -> None:
    """Append a [[machines]] for each kind and rack of the found nodes, and a [hardware] for new kinds."""
    document = _read_document(path)
    kinds: Any = document.setdefault("hardware", tomlkit.table(is_super_table=True))
    for kind in dict.fromkeys(node.hardware for node in found):
        if kind not in kinds:
            kinds.append(kind, tomlkit.table().add(tomlkit.nl()))
    groups: Any = document.setdefault("machines", tomlkit.aot())
    for kind, rack in dict.fromkeys((node.hardware, node.rack) for node in found):
        alike = [node for node in found if (node.hardware, node.rack) == (kind, rack)]
        for having in (True, False):
            group = [node for node in alike if (node.bmc is not None) == having]
            if group:
                groups.append(_machines_table(group))
    _write_document(path, document)


def _machines_table(alike: Sequence[ImportedNode]) -> Any:
    table = tomlkit.table()
    place = {name: at for at, name in enumerate(expand_in_order(fold(node.node for node in alike)))}
    ordered = sorted(alike, key=lambda each: place[each.node])
    table["nodes"] = in_order([node.node for node in ordered])
    table["hardware"] = ordered[0].hardware
    if ordered[0].bmc is not None:
        table["bmc"] = in_order([str(node.bmc) for node in ordered])
    if ordered[0].rack is not None:
        table["rack"] = ordered[0].rack
    return table.add(tomlkit.nl())


def in_order(names: Sequence[str]) -> str:
    """Return the names as a node set that expands in their order, folded if folding keeps the order."""
    folded = fold(names)
    return folded if expand_in_order(folded) == tuple(names) else ",".join(names)


def _read_document(path: Path) -> tomlkit.TOMLDocument:
    text = read_bytes(path, BadInventory).decode() if is_there(path) else NEW_INVENTORY
    return tomlkit.parse(text)


def _write_document(path: Path, document: tomlkit.TOMLDocument) -> None:
    with replacing(path) as file:
        file.write(tomlkit.dumps(document).encode())
