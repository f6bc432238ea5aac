"""`qmgr -c`: the server's attributes, nodes, custom resources and hooks."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from plugin.pbs.openpbs_server import NODE_RESOURCE
from sim_backend.pbs_standin.pbs import HOOK_ERROR, NO_ATTRIBUTE, POWER, REFUSED, UNKNOWN_NODE, Pbs, PbsError, PbsReply

_ORDER = re.compile(r"\s*(\w+)\s+(\w+)(?:\s+([^\s=]+))?\s*(.*)", re.DOTALL)
_PAIR = re.compile(r'\s*([\w.]+)\s*(\+=|-=|=)\s*("[^"]*"|[^,]*?)\s*(?:,|$)')
SHORT = {"s": "set", "l": "list", "p": "print", "c": "create", "d": "delete", "u": "unset", "i": "import"}
OBJECTS = {"s": "server", "n": "node", "q": "queue", "r": "resource", "h": "hook"}
POWER_HOOK = "PBS_power"
STATES = frozenset({"sleep", "offline"})


def qmgr(pbs: Pbs, order: str, user: str) -> PbsReply:
    """Execute an order to qmgr and return the reply; PbsError if the user may not or the server cannot."""
    match = _ORDER.match(order)
    verb, what = (match[1], match[2]) if match else ("", "")
    verb, what = SHORT.get(verb, verb), OBJECTS.get(what, what)
    if what == "hook" and user not in pbs.roots:
        # A list ends with 0 all the same; managers are no exception.
        refused = f"{user}@{pbs.host} is unauthorized to access hooks data from server {pbs.host}\n"
        return PbsReply(err=refused, code=0 if verb in ("list", "print") else HOOK_ERROR % 256)
    if verb not in ("list", "print") and user not in pbs.managers:
        raise PbsError(REFUSED, "Unauthorized Request")
    name, rest = (match[3] or "", match[4]) if match else ("", "")
    if (verb, what) == ("import", "hook") and pbs.hooks.get(name):
        return PbsReply(_made(pbs.hooks, verb, "Hook", name, rest).encode(), f"hook '{name}' contents overwritten\n")
    return PbsReply(_done(pbs, verb, what, name, rest).encode())


def _done(pbs: Pbs, verb: str, what: str, name: str, rest: str) -> str:
    if what == "server" and verb in ("set", "unset", "list"):
        return _server(pbs, verb, f"{name} {rest}")
    if what == "node" and verb in ("set", "unset"):
        return _node(pbs, verb, name, rest)
    if (verb, what, name) == ("set", "pbshook", POWER_HOOK):
        return _server(pbs, verb, f"{POWER} = {rest.partition('=')[2].strip()}")
    return _made(pbs.resources if what == "resource" else pbs.hooks, verb, what.capitalize(), name, rest)


def _server(pbs: Pbs, verb: str, rest: str) -> str:
    if verb == "list":
        return "\n".join([f"Server {pbs.host}", *(f"    {key} = {value}" for key, value in pbs.attributes.items()), ""])
    if verb == "unset":
        pbs.attributes.pop(rest.strip(), None)
    for key, sign, value in _PAIR.findall(rest) if verb == "set" else ():
        text = _changed(pbs.attributes.get(key, ""), sign, value.strip('"'))
        pbs.attributes[key] = text.capitalize() if text in ("true", "false") else text
        if not text:
            del pbs.attributes[key]
    if "managers" in rest:
        named = pbs.attributes.get("managers", "").split(",")
        pbs.managers = frozenset({"root", *(each.partition("@")[0] for each in named if each)})
    return ""


def _changed(before: str, sign: str, value: str) -> str:
    """Return an attribute's new value: of lists, those with and without commas, one may be added or taken away."""
    kept = [part for part in before.split(",") if part and part != value]
    match sign:
        case "+=":
            return ",".join([*kept, value])
        case "-=":
            return ",".join(kept)
    return value


def _node(pbs: Pbs, verb: str, name: str, rest: str) -> str:
    node = pbs.cluster.nodes.get(name)
    if node is None:
        raise PbsError(UNKNOWN_NODE, "Unknown node")
    if verb == "unset":
        for key in (part.strip() for part in rest.split(",")):
            _write(pbs, name, key, "=", "")
        return ""
    pairs = _PAIR.findall(rest)
    # All of one order, or nothing of it.
    for key, _, _ in pairs:
        if key.startswith("resources_available.") and key.partition(".")[2] not in pbs.resources:
            raise PbsError(NO_ATTRIBUTE, "Unknown resource")
    for key, sign, value in pairs:
        _write(pbs, name, key, sign, value.strip('"'))
    return ""


def _write(pbs: Pbs, name: str, key: str, sign: str, value: str) -> None:
    node = pbs.cluster.nodes[name]
    if key == "comment":
        node.note = value
    elif key == f"resources_available.{NODE_RESOURCE}":
        node.mark = value
    elif key == "state":
        wanted = set(value.split(",")) & STATES
        if sign == "=":
            # What the server has noticed itself is written over, too: a node that is down is down no more.
            node.shown_up = not node.alive
        changes: Mapping[str, Callable[[], set[str]]] = {
            "=": lambda: wanted,
            "+=": lambda: node.shut | wanted,
            "-=": lambda: node.shut - wanted,
        }
        node.shut = changes[sign]()


def _made(table: dict[str, str], verb: str, title: str, name: str, rest: str) -> str:
    match verb:
        case "create":
            table[name] = rest
        case "import":
            table[name] = Path(rest.split()[-1]).read_text()
        case "delete":
            table.pop(name, None)
        case "list" | "print":
            return "".join(
                f"{title} {each}\n    {'enabled = true' if title == 'Hook' else made}\n\n"
                for each, made in table.items()
            )
    return ""
