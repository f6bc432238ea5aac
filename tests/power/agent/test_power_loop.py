"""What the power loop takes up after a restart."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

from model_room import ModelNode, model_lookout
from scheduler_words import life_of

from offpeak.agent_settings import AgentSettings
from offpeak.ledger.ledger import Ledger
from offpeak.ledger_settings import LedgerSettings
from power.agent.memory import remember_lives
from power.agent.power_loop import PowerLoop
from power.agent.voice import Voice
from power.lifecycle.decide import Lives
from power.lifecycle.life import NodeState, Word


def test_nodes_are_looked_at_before_anything_is_decided_by_what_a_run_before_has_left(tmp_path: Path) -> None:
    node = ModelNode("n1")
    lookout = model_lookout({"n1": node})
    settings = SimpleNamespace(agent=AgentSettings())
    parts = SimpleNamespace(
        lookout=lookout, machines=lookout.machines, wire=SimpleNamespace(timeout_s=1.0), settings=settings
    )
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    remember_lives(ledger, Lives(), Lives({"n1": life_of(state=NodeState.OFF)}), monotonic_s=0.0)
    loop = PowerLoop(ledger, Voice(), time.time)
    loop.take_up(parts)
    asyncio.run(loop.look_first(parts, {"n1": Word.UP}))
    assert (str(loop.lives.nodes["n1"].seen.state), loop.lives.nodes["n1"].surprises) == ("on", ())
    assert ledger.latest()["n1"].observed == "on"
    node.state = "off"
    asyncio.run(loop.look_first(parts, {}))
    assert str(loop.lives.nodes["n1"].seen.state) == "on"
    assert node.log == []
    ledger.close()
