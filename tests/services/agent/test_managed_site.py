"""What the rules for the scheduler need of the site: its nodes, and the boots that were measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Hardware, Inventory, InventoryNode
from offpeak.plugin.contract.pbs import OPENPBS_RULES, PbsContract
from offpeak.plugin.contract.slurm import SlurmContract
from offpeak.plugin.pbs.jobs import PbsUser
from offpeak.services.agent.node_memory import TIMES_KEY, read_managed_site
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings

pytestmark = pytest.mark.quick


def test_a_command_finds_the_boots_that_the_agent_has_measured(tmp_path: Path) -> None:
    settings = Settings(
        ledger=LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"), agent=AgentSettings(nodes="n[1-2]")
    )
    kind = Hardware("compute", "ipmi")
    inventory = Inventory(tmp_path / "inventory.toml", tuple(InventoryNode(f"n{number}", kind) for number in (1, 2, 3)))
    empty = read_managed_site(settings, inventory)
    assert (empty.switched, dict(empty.boots_s)) == ({"n1", "n2"}, {"n1": (), "n2": ()})
    ledger = Ledger(settings.ledger)
    ledger.claim()
    ledger.ready()
    ledger.remember(TIMES_KEY, json.dumps({"compute": {"boot": [200.0, 700.0], "shutdown": [9.0]}}))
    ledger.close()
    assert read_managed_site(settings, inventory).boots_s == {"n1": (200.0, 700.0), "n2": (200.0, 700.0)}
    assert read_managed_site(replace(settings, agent=AgentSettings()), inventory).switched == frozenset()


def test_what_to_type_for_a_node_that_is_lost_for_jobs() -> None:
    slurm, pbs = SlurmContract({}), PbsContract(OPENPBS_RULES, {}, PbsUser("root", "head"))
    assert slurm.remedy("UNKNOWN+POWERING_UP", "n1").startswith("`scontrol update nodename=n1 state=down reason=lost`")
    assert "`scontrol update nodename=n[1-2] state=resume`" in slurm.remedy("DOWN+POWERED_DOWN", "n[1-2]")
    assert "start pbs_mom there" in pbs.remedy("state-unknown,down", "n1")
