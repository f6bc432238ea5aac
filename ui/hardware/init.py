"""Run `offpeak init`: write a site's first settings and inventory from its scheduler and three answers.

The agent that reads them runs in shadow mode. A file that exists is not touched, unless it sets nothing, as the
settings that the installation puts there; without an answer none is written.
"""

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType

import tomlkit
import typer

from offpeak.errors import BadInput, BadInventory, OffpeakError, SchedulerError
from offpeak.files import replacing
from offpeak.machines.enrolment import ImportedNode, add_machines
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand_in_order, fold
from offpeak.model.node_class_file import bundled_node_classes, node_class_named
from offpeak.plugin.contract.rules import ManagedSite, check_contract, find_excluded
from offpeak.plugin.queue_hook.facts import OFF
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import SchedulerTraits
from offpeak.plugin.scheduler.registry import scheduler_name, scheduler_of
from offpeak.power.check.pairing import pair_lines
from offpeak.predictors.feeds.markets import find_market
from offpeak.prices.tariff import parse_tariff
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.text import counted

SETTINGS, INVENTORY, PASSWORD = "offpeak.toml", "inventory.toml", "bmc.password"
SYSTEM_FOLDER = Path("/etc/offpeak")
NODE = "{node}"
INVENTORY_TEXT = """\
# The machines of this site. `offpeak check` shows whether all of them can be reached.
{credentials}{hardware}
"""
CREDENTIALS = f"""
[credentials.bmc]
user = "offpeak"
password_file = "{PASSWORD}"
"""
HARDWARE = """
[hardware.{name}]
node_class = "{node_class}"
"""
BY_IPMI = """\
driver = "ipmi"
credential = "bmc"

[hardware.{name}.soft_off]
wake = ["bmc"]
"""


@dataclass(frozen=True)
class SiteAnswers:
    """What the scheduler does not know: a zone or a price for all hours, the BMCs' addresses, the class of the nodes.

    `bmcs` are in the order of the nodes, or have NODE in the place of a node's name; "" if no node has one.
    """

    price: str | None
    bmcs: str | None
    node_class: str | None


def write_first_files(settings: Settings, folder: Path, given: SiteAnswers) -> None:
    """Ask for what was not given, write both files, and print what to do next. Raises BadInput if one exists."""
    for name in (SETTINGS, INVENTORY):
        if (folder / name).exists() and not (name == SETTINGS and sets_nothing(folder / name)):
            hint = f"edit it, or name another folder: offpeak init --folder {folder / 'new'}"
            raise BadInput(f"{folder / name} exists: init does not change it", hint=hint)
    check_folder(folder)
    nodes, traits = _scheduler_view(settings)
    names = expand_in_order(fold(node.name for node in nodes))
    typer.echo(f"{traits.name} {traits.version}: {counted(len(names), 'node')}, {fold(names)}")
    price = _answer(
        given.price, "Price: a bidding zone such as DE-LU, or one price such as 0.20EUR/kWh", "", check_price
    )
    bmcs = _answer(given.bmcs, f"BMCs: addresses such as 10.1.0.[1-64], or {NODE}-bmc; - for none", "-", str)
    addresses = bmc_addresses(bmcs, names)
    _show_pairs(addresses)
    classes = ", ".join(bundled_node_classes())
    node_class = _answer(given.node_class, f"Class of the nodes: {classes}, or a file", "server", _check_class)
    managed = ManagedSite(
        nodes,
        frozenset(names if addresses else ()),
        wakes_per_min=settings.agent.wakes_per_min,
        nodes_per_sweep=settings.agent.nodes_per_sweep,
        may_delay=settings.agent.queue != OFF,
    )
    findings = check_contract(traits.contract, managed)
    excluded = find_excluded(findings)
    kinds = kinds_of(nodes)
    imported = [ImportedNode(node.name, kinds[node.name], addresses.get(node.name)) for node in nodes]
    _write_inventory(folder / INVENTORY, imported, node_class)
    switched = [name for name in names if name not in excluded] if addresses else []
    text = settings_text(folder, scheduler_name(settings), fold(switched) or None, price, node_class, excluded)
    _write(folder / SETTINGS, text)
    read_inventory(folder / INVENTORY)
    Settings.of(read_values(folder / SETTINGS))
    for finding in findings:
        hint = f"{SETTINGS} leaves them out of nodes" if finding.rule.excludes else finding.hint
        typer.echo(f"{traits.name}: {finding.message}\n  hint: {hint}")
    _print_next_steps(folder, price, bool(addresses))


def sets_nothing(path: Path) -> bool:
    """Whether the file has comments and headings of tables at most."""
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return all(table == {} for table in tables.values())


def check_folder(folder: Path) -> None:
    """Make the folder. Raises BadInput if files cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as problem:
        hint = "run init as root, or try it in a folder of yours: offpeak init --folder ~/offpeak"
        raise BadInput(f"{folder}: cannot be written: {problem.strerror}", hint=hint) from None


def _scheduler_view(settings: Settings) -> tuple[Sequence[Node], SchedulerTraits]:
    if scheduler_name(settings) is None:
        raise SchedulerError(
            "no scheduler was found on this machine: neither Slurm nor PBS",
            hint="run init on the head node, or try offpeak without a cluster: offpeak demo",
        )
    scheduler = scheduler_of(settings)
    traits, nodes = scheduler.traits(), scheduler.view().nodes
    if not nodes:
        raise SchedulerError("the scheduler reports no nodes", hint="run init as a user who may see them, such as root")
    return nodes, traits


def _answer(given: str | None, question: str, default: str, check: Callable[[str], str]) -> str:
    """Return the option if it was given, else the answer on a terminal, else the default."""
    if given is not None or not sys.stdin.isatty():
        return check(default if given is None else given)
    while True:
        try:
            return check(str(typer.prompt(question, default=default, show_default=bool(default))).strip())
        except OffpeakError as problem:
            typer.echo(f"{problem}\n  hint: {problem.hint}", err=True)


def check_price(text: str) -> str:
    """Return a zone or price as it was written. Raises BadInput, BadPrices or BadSetting."""
    if text[:1].isdigit():
        parse_tariff(flat_tariff(text))
    elif text:
        find_market(text)
    return text


def flat_tariff(price: str) -> str:
    """Return the tariff of one price for all hours."""
    return f"on={price},off={price}"


def _check_class(text: str) -> str:
    node_class_named(text)
    return text


def bmc_addresses(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the address of each node's BMC, {} for "-". Raises BadInventory if there are not as many as nodes."""
    if text in ("", "-"):
        return {}
    if NODE in text:
        return {name: text.replace(NODE, name) for name in names}
    addresses = expand_in_order(text)
    if len(addresses) != len(names):
        raise BadInventory(
            f"{text}: {counted(len(addresses), 'BMC')} for {counted(len(names), 'node')}",
            hint=f"one for each node, in the order {fold(names)}; or by name: {NODE}-bmc",
        )
    return dict(zip(names, addresses, strict=True))


def _show_pairs(addresses: Mapping[str, str]) -> None:
    """Show which BMC is whose. Raises BadInput if the admin says on a terminal that a pair is wrong."""
    if not addresses:
        return
    typer.echo("BMCs, each beside the node that it would switch:")
    for line in pair_lines(addresses):
        typer.echo(f"  {line}")
    if sys.stdin.isatty() and not typer.confirm("Are these pairs right?", default=True):
        raise BadInput(
            "nothing was written: a BMC does not belong to its node",
            hint=f"give the BMCs in the order of the nodes, by name ({NODE}-bmc), or import them: "
            "offpeak enroll --from-netbox FILE",
        )


def kinds_of(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the name of each node's hardware: compute if all nodes are equal, else by processors and GPUs."""
    if len({(node.cpus, node.gpus) for node in nodes}) == 1:
        return {node.name: "compute" for node in nodes}
    gpus = {node.name: "".join(f"-{count}{kind or 'gpu'}" for kind, count in node.gpus) for node in nodes}
    return {node.name: f"cpu{node.cpus}{gpus[node.name]}" for node in nodes}


def _write_inventory(path: Path, nodes: Sequence[ImportedNode], node_class: str) -> None:
    has_bmcs = nodes[0].bmc is not None
    kinds = dict.fromkeys(node.hardware for node in nodes)
    table = HARDWARE.replace("\n", "", 1) + (BY_IPMI if has_bmcs else "")
    hardware = "".join("\n" + table.format(name=kind, node_class=node_class) for kind in kinds)
    _write(path, INVENTORY_TEXT.format(credentials=CREDENTIALS if has_bmcs else "", hardware=hardware))
    add_machines(path, nodes)


def settings_text(
    folder: Path,
    scheduler: str | None,
    nodes: str | None,
    price: str,
    node_class: str,
    excluded: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the settings: the agent in shadow mode; outside of SYSTEM_FOLDER all its files are below `folder`.

    A comment says which nodes the scheduler's configuration excludes, and by which setting.
    """
    agent: dict[str, object] = {"mode": "shadow", "scheduler": scheduler, **({"nodes": nodes} if nodes else {})}
    tables: dict[str, dict[str, object]] = {"agent": agent, "power": {"node_class": node_class}}
    if price:
        flat = price[0].isdigit()
        tables["prices" if flat else "feeds"] = {"tariff": flat_tariff(price)} if flat else {"zone": price}
    if folder != SYSTEM_FOLDER:
        agent |= {"socket": str(folder / "agent.sock"), "state_folder": str(folder)}
        tables["ledger"] = {"url": f"sqlite:///{folder / 'ledger.sqlite'}"}
        tables["hardware"] = {"inventory": str(folder / INVENTORY)}
        tables.setdefault("feeds", {})["cache"] = str(folder / "feeds")
    return (
        "# Written by `offpeak init`. `offpeak show-config --example` prints all settings.\n"
        "# `nodes` in [agent] may be switched in mode active: leave out login nodes and whatever must not sleep.\n"
        + "".join(
            f"# Left out: {fold(node for node in excluded if excluded[node] == what)}, by {what} of the scheduler.\n"
            for what in dict.fromkeys(excluded.values())
        )
        + tomlkit.dumps(tables)
    )


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def _print_next_steps(folder: Path, price: str, has_bmcs: bool) -> None:
    is_system = folder == SYSTEM_FOLDER
    config = "" if is_system else f" --config {folder / SETTINGS}"
    for name in (SETTINGS, INVENTORY):
        typer.echo(f"wrote {folder / name}")
    if not price:
        typer.echo(f"price: not given; the agent assumes a tariff until {folder / SETTINGS} names a zone or price")
    if has_bmcs:
        typer.echo(f"next, the password of the BMCs' user offpeak: (umask 077; cat > {folder / PASSWORD})")
        typer.echo(f"then  offpeak enroll{config}")
    else:
        typer.echo("no BMC: offpeak only orders the queue; to let nodes sleep, add their BMCs (docs/how-to/ipmi.md)")
        typer.echo(f"        to {folder / INVENTORY}, and `nodes` to {folder / SETTINGS}")
    typer.echo(f"then  offpeak check{config}")
    start = "systemctl enable --now offpeak-agent" if is_system else f"offpeak agent{config}"
    typer.echo(f"then  {start}   (in shadow mode it changes nothing)")
