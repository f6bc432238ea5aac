"""Nodes from RacksDB: its database's files, or what `racksdb nodes --format yaml` or json prints."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from offpeak.errors import BadInventory
from offpeak.machines.found import Found
from offpeak.machines.node_sets import expand_in_order

HINT = "export it with: racksdb nodes --infrastructure NAME --format yaml"


def racksdb_nodes(text: bytes, path: Path) -> tuple[Found, ...]:
    """Return the nodes of the export; BadInventory with the file and a hint if it is none.

    RacksDB knows no BMCs, unless a site has added a field `bmc` to its nodes: it is taken over.
    """
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        said = " ".join(str(problem).split())
        raise BadInventory(f"{path}: is no YAML: {said}", hint=HINT) from None
    found = tuple(node for each, rack in _entries(parsed) for node in _nodes(each, rack, path))
    if not found:
        raise BadInventory(f"{path}: holds no node of RacksDB", hint=HINT)
    return found


def _entries(parsed: object, rack: str | None = None) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Yield the entries of nodes, however deep below infrastructures, layouts and racks they stand."""
    if isinstance(parsed, list):
        for each in parsed:
            yield from _entries(each, rack)
    elif isinstance(parsed, dict):
        if "name" in parsed and "type" in parsed:
            yield parsed, rack
            return
        if "layout" in parsed or "nodes" in parsed:
            rack = _named(parsed.get("rack")) or rack
            yield from _entries(parsed.get("layout", parsed.get("nodes")), rack)
            return
        for each in parsed.get("infrastructures", {}).values():
            yield from _entries(each, rack)


def _nodes(entry: Mapping[str, Any], rack: str | None, path: Path) -> Iterator[Found]:
    kind = _named(entry["type"])
    if not isinstance(entry["name"], str) or kind is None:
        raise BadInventory(f"{path}: {entry['name']!r} is no node with a type", hint=HINT)
    nodes = expand_in_order(entry["name"])
    bmcs = expand_in_order(entry["bmc"]) if entry.get("bmc") else (None,) * len(nodes)
    if len(bmcs) != len(nodes):
        raise BadInventory(f"{path}: {entry['name']}: {len(bmcs)} BMCs for {len(nodes)} nodes", hint="give one a node")
    for node, bmc in zip(nodes, bmcs, strict=True):
        yield Found(node, kind, bmc, _named(entry.get("rack")) or rack)


def _named(written: object) -> str | None:
    """Return a name, whether it stands there itself or as the `id` or `name` of a table."""
    if isinstance(written, dict):
        written = written.get("id", written.get("name"))
    return written if isinstance(written, str) else None
