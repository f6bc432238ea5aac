"""How fast Slurm's resume program wakes nodes: all of its processes together keep to one pace."""

import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from slurm_programs import DEPLOYED, SlurmPrograms, slurm_programs
from wake_listener import WakeListener, wake_listener

from benchmarks.local_slurm.processes import end_processes_with
from offpeak.machines.inventory import Hardware, Inventory, InventoryNode
from offpeak.power.wake_list import WakeMethod, make_wake_list, write_wake_list

EVERY_S, AT_ONCE = 0.6, 20
"""The pace where wake.json has none."""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[SlurmPrograms]:
    made = slurm_programs(tmp_path)
    yield made
    end_processes_with("OFFPEAK_SLURM_LOG", made.log)


@pytest.fixture
def cards() -> Iterator[WakeListener]:
    with wake_listener() as listener:
        yield listener


def know(programs: SlurmPrograms, cards: WakeListener, count: int, pace: WakeMethod | None = None) -> None:
    """Write a wake list of so many nodes that are woken by packets, from n1 on."""
    nodes = [
        InventoryNode(f"n{at}", Hardware("old"), mac=f"02:00:00:00:{at >> 8:02x}:{at & 255:02x}", wol_via=cards.via)
        for at in range(1, count + 1)
    ]
    write_wake_list(programs.state, make_wake_list(Inventory(programs.state / "inventory.toml", tuple(nodes))), pace)


def woken(cards: WakeListener, count: int, *, above: int = 0) -> list[tuple[float, int]]:
    """Return when each of the next so many nodes with a number above that was woken, and its number, in their order."""
    found: dict[int, float] = {}
    while len(found) < count:
        if (node := int.from_bytes(cards.packet()[10:12], "big")) > above:
            found.setdefault(node, time.monotonic())
    return [(at_s, node) for node, at_s in found.items()]


def scaled(scale: float, **environment: str) -> dict[str, str]:
    return {"OFFPEAK_TIME_SCALE": str(scale), **environment}


def test_a_thousand_nodes_are_not_woken_at_once(programs: SlurmPrograms, cards: WakeListener) -> None:
    know(programs, cards, 1000)
    begun_s = time.monotonic()
    assert programs.run("offpeak-resume", "n[1-1000]").returncode == 0
    first = {node for _, node in woken(cards, AT_ONCE)}
    time.sleep(1.0)
    cards.socket.setblocking(False)
    more = set[int]()
    with suppress(BlockingIOError):
        while True:
            more.add(int.from_bytes(cards.packet()[10:12], "big"))
    assert len(first | more) <= AT_ONCE + (time.monotonic() - begun_s) / EVERY_S + 1


def test_all_processes_share_the_pace(programs: SlurmPrograms, cards: WakeListener) -> None:
    know(programs, cards, 50)
    sets = [f"n[{at}-{at + 9}]" for at in range(1, 51, 10)]
    begun_s = time.monotonic()
    begun = [programs.started("offpeak-resume", "--wake", set_, **scaled(0.05)) for set_ in sets]
    times = [at_s for at_s, _ in woken(cards, 50)]
    assert times[-1] - begun_s >= 0.05 * EVERY_S * (50 - AT_ONCE) * 0.8
    assert [process.wait(300) for process in begun] == [0] * 5


def test_a_killed_process_leaves_the_pace_as_it_is(programs: SlurmPrograms, cards: WakeListener) -> None:
    know(programs, cards, 60)
    killed = programs.started("offpeak-resume", "--wake", "n[1-30]", **scaled(0.2))
    woken(cards, 25)
    killed.kill()
    killed.wait(300)
    # The time until which the pace is used up.
    file = programs.state / "wake.pace"
    used_up_s = file.stat().st_mtime
    last = programs.started("offpeak-resume", "--wake", "n[31-34]", **scaled(0.2))
    woken(cards, 4, above=30)
    # There is no new burst: the previous program has used it up, and no wake of the dead program is repeated.
    assert last.wait(300) == 0
    assert file.stat().st_mtime >= used_up_s + 4 * 0.2 * EVERY_S - 0.01


def test_racks_and_watts_have_a_pace_of_their_own(programs: SlurmPrograms, cards: WakeListener) -> None:
    pace: dict[str, Any] = {"at_once": 100, "every_s": 0.01, "groups": {"rack A": ["n1", "n2", "n3"]}}
    know(programs, cards, 8, pace | {"group_every_s": 0.5, "rise_s": {"n7": 0.5, "n8": 0.5}})
    begun_s = time.monotonic()
    running = programs.started("offpeak-resume", "--wake", "n[1-8]")
    at_s = {node: at_s for at_s, node in woken(cards, 8)}
    assert running.wait(300) == 0
    assert max(at_s[node] for node in (1, 2, 3)) - begun_s >= 0.9
    assert max(at_s[node] for node in (7, 8)) - begun_s >= 0.4
    # A rack that waits keeps no other node waiting.
    assert max(at_s[node] for node in (4, 5, 6)) < max(at_s[node] for node in (2, 3))


def test_a_full_disk_neither_stops_nor_hurries_it(programs: SlurmPrograms, cards: WakeListener) -> None:
    know(programs, cards, 44)
    environment = programs.environment | {"PATH": "/usr/bin:/bin"} | scaled(0.05)
    begun_s = time.monotonic()
    processes = [
        subprocess.Popen(
            [DEPLOYED / "offpeak-resume", "--wake", f"n[{at}-{at + 21}]"],
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
        for at in (1, 23)
    ]
    times = [at_s for at_s, _ in woken(cards, 44)]
    assert times[-1] - begun_s >= 0.05 * EVERY_S * (44 - AT_ONCE) * 0.8
    assert [process.wait(300) for process in processes] == [0, 0]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"": 1e18, "rack A": "soon"}', '{"": 1e999}'])
def test_a_damaged_file_of_the_pace_is_written_anew(programs: SlurmPrograms, cards: WakeListener, damage: str) -> None:
    know(programs, cards, 2)
    (programs.state / "wake.pace").write_text(damage)
    assert programs.run("offpeak-resume", "--wake", "n[1-2]").returncode == 0
    assert [node for _, node in woken(cards, 2)] == [1, 2]


def test_where_no_file_can_be_each_process_keeps_to_the_pace_alone(
    programs: SlurmPrograms, cards: WakeListener
) -> None:
    know(programs, cards, 30)
    (programs.state / "wake.pace").mkdir()
    begun_s = time.monotonic()
    running = programs.started("offpeak-resume", "--wake", "n[1-30]", **scaled(0.1))
    times = [at_s for at_s, _ in woken(cards, 30)]
    assert running.wait(300) == 0
    assert times[-1] - begun_s >= 0.1 * EVERY_S * 10 * 0.8
    assert sum("the pace is not shared" in line for line in programs.lines()) == 1
