"""Writes into an inventory what was found out, and leaves every line and comment of the admin as it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from offpeak.errors import BadInventory
from offpeak.files import read_bytes, replacing
from offpeak.machines.found import Found
from offpeak.machines.inventory import Enrolled
from offpeak.machines.node_sets import expand_in_order, fold

NEW = """\
# The machines of this site. `offpeak check` says whether all of them can be reached.
"""
ENROLLED = (
    "Written by `offpeak enroll`: who answered at a node's BMC. Nothing is switched off whose identity has changed."
)


def write_enrolled(path: Path, enrolled: Mapping[str, Enrolled]) -> None:
    """Put the nodes' lines below [enrolled], in the order given; lines of other nodes stay."""
    document = _document(path)
    if "enrolled" not in document:
        table = tomlkit.table()
        table.comment(ENROLLED)
        document.add(tomlkit.nl())
        document.add("enrolled", table)
    lines: Any = document["enrolled"]
    for node, each in enrolled.items():
        line = tomlkit.inline_table()
        line.update({"identity": each.identity, "capabilities": list(each.capabilities), "date": each.date})
        lines[node] = line
    _write(path, document)


def add_machines(path: Path, found: Sequence[Found]) -> None:
    """Append a [[machines]] for each kind and rack of what was found, and a [hardware] for kinds that are new."""
    document = _document(path)
    kinds: Any = document.setdefault("hardware", tomlkit.table(is_super_table=True))
    for kind in dict.fromkeys(each.hardware for each in found):
        if kind not in kinds:
            kinds.append(kind, tomlkit.table().add(tomlkit.nl()))
    groups: Any = document.setdefault("machines", tomlkit.aot())
    for kind, rack in dict.fromkeys((each.hardware, each.rack) for each in found):
        alike = [each for each in found if (each.hardware, each.rack) == (kind, rack)]
        for having in (True, False):
            group = [each for each in alike if (each.bmc is not None) == having]
            if group:
                groups.append(_group(group))
    _write(path, document)


def _group(alike: Sequence[Found]) -> Any:
    table = tomlkit.table()
    ordered = sorted(alike, key=lambda each: each.node)
    table["nodes"] = in_order([each.node for each in ordered])
    table["hardware"] = ordered[0].hardware
    if ordered[0].bmc is not None:
        table["bmc"] = in_order([str(each.bmc) for each in ordered])
    if ordered[0].rack is not None:
        table["rack"] = ordered[0].rack
    return table.add(tomlkit.nl())


def in_order(names: Sequence[str]) -> str:
    """Return the names as a node set that expands in their order: folded where folding keeps it."""
    folded = fold(names)
    return folded if expand_in_order(folded) == tuple(names) else ",".join(names)


def _document(path: Path) -> tomlkit.TOMLDocument:
    text = read_bytes(path, BadInventory).decode() if path.exists() else NEW
    return tomlkit.parse(text)


def _write(path: Path, document: tomlkit.TOMLDocument) -> None:
    with replacing(path) as file:
        file.write(tomlkit.dumps(document).encode())
