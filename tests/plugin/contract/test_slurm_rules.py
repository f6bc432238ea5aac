"""Each rule for slurm.conf: what breaks it, in which words, for which nodes, and what keeps it."""

import json
import math
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from offpeak.model.orders import PowerState
from offpeak.plugin.contract import slurm_rights
from offpeak.plugin.contract.rules import (
    NO_CONTRACT,
    ContractFinding,
    ManagedSite,
    Severity,
    check_contract,
    find_nodes_kept_awake,
)
from offpeak.plugin.contract.slurm import SLURM_RULES
from offpeak.plugin.contract.slurm_programs import FOLDER, PROGRAMS, find_problem_of_file
from offpeak.plugin.contract.slurm_rights import ALL_RIGHTS, AdminLevel, SlurmRights
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.slurm.configuration import traits_of_text
from offpeak.plugin.slurm.nodes import nodes_of_json, nodes_of_text

pytestmark = pytest.mark.quick

REPOSITORY = Path(__file__).parents[3]
DEPLOYED = REPOSITORY / "deploy" / "slurm"
HERE = socket.gethostname().partition(".")[0]
CLEAN = {
    "ResumeFailProgram": str(DEPLOYED / "offpeak-resume-fail"),
    "ResumeProgram": str(DEPLOYED / "offpeak-resume"),
    "ResumeRate": "120 nodes/min",
    "ResumeTimeout": "600 sec",
    "ReturnToService": "2",
    "SlurmctldHost[0]": f"{HERE}(10.0.0.1)",
    "SlurmdTimeout": "300 sec",
    "SuspendProgram": str(DEPLOYED / "offpeak-suspend"),
    "SuspendRate": "0 nodes/min",
    "SuspendTime": "31536000 sec",
    "SuspendTimeout": "30 sec",
}
BATCH = "PartitionName=batch SuspendTime=NONE ResumeTimeout=GLOBAL PowerDownOnIdle=NO"
NOBODY = SlurmRights("nobody", AdminLevel.NONE, ("jobs", "usage"))
ALL = frozenset({"n1", "n2", "n3"})


def node(name: str, state: str = "IDLE", **fields: object) -> Node:
    partitions = "batch,big" if name == "n3" else "batch"
    (made,) = nodes_of_text(f"NodeName={name} State={state} CPUTot=4 CPUAlloc=0 Partitions={partitions}".encode())
    return made._replace(**fields)


NODES = tuple(node(name) for name in sorted(ALL))


def findings(
    settings: Mapping[str, str],
    partitions: str = BATCH,
    *,
    nodes: tuple[Node, ...] = NODES,
    rights: SlurmRights = ALL_RIGHTS,
    boots_s: tuple[float, ...] = (200.0, 250.0, 700.0),
    may_delay: bool = False,
) -> tuple[ContractFinding, ...]:
    """Return the findings about a clean configuration with these changes; "" leaves a setting out."""
    lines = "".join(f"{name:<23} = {value or '(null)'}\n" for name, value in (CLEAN | settings).items())
    contract = traits_of_text(lines.encode(), partitions.encode(), rights).contract
    site = ManagedSite(nodes, ALL, dict.fromkeys(ALL, boots_s), 120, nodes_per_sweep=10, may_delay=may_delay)
    return check_contract(contract, site)


def test_a_clean_configuration_has_no_finding() -> None:
    assert findings({}) == ()
    silent = {"SlurmdTimeout": "0 sec", "ResumeRate": "0 nodes/min", "SuspendExcNodes": "(null)"}
    assert findings(silent) == ()


def test_nodes_of_a_cloud_and_of_other_programs_are_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "next_program.conf"
    monkeypatch.setattr("offpeak.plugin.contract.slurm_programs.NEXT_FILE", file)
    others = (node("cloud1", "IDLE+CLOUD"), node("own1")._replace(partitions=("own",)), node("login1"))
    partitions = f"{BATCH}\nPartitionName=own SuspendTime=600"
    (found,) = findings({}, partitions, nodes=(*NODES, *others))
    assert (found.rule.name, found.nodes) == ("next_program.conf", {"cloud1", "own1"})
    assert found.message.startswith("/etc/offpeak/next_program.conf does not name cloud1,own1: offpeak's ResumeProgram")
    assert "write nodes = cloud1,own1 and" in found.hint
    file.write_text("[next_program]\nnodes = cloud[1-9]")
    (found,) = findings({}, partitions, nodes=(*NODES, *others))
    assert found.nodes == {"own1"}
    file.write_text("[next_program]\nnodes = cloud[1-9],own1")
    assert findings({}, partitions, nodes=(*NODES, *others)) == ()
    at_once = f"{BATCH}\nPartitionName=own SuspendTime=0"
    file.write_text("[next_program]\nnodes = cloud[1-9]")
    assert [each.nodes for each in findings({}, at_once, nodes=(*NODES, *others))] == [{"own1"}]
    by_rule = {each.rule.name: each for each in findings({"SuspendTime": "0 sec"}, nodes=(*NODES, *others))}
    assert by_rule["next_program.conf"].nodes == {"own1", "login1"}


def test_a_job_that_may_wait_needs_a_begin_time_at_its_submission() -> None:
    early = [each.rule.name for each in findings({"SchedulerParameters": "bf_interval=30"}, may_delay=True)]
    assert early == ["job_submit.lua, defer"]
    for settings in ({"JobSubmitPlugins": "require_timelimit,lua"}, {"SchedulerParameters": "bf_interval=30,defer"}):
        assert findings(settings, may_delay=True) == ()


INCLUDED = dict(re.findall(r"^(\w+)=(\S+)$", (DEPLOYED / "slurm.conf.offpeak").read_text(), re.MULTILINE))


def test_the_installed_include_keeps_all_rules() -> None:
    programs = {name: value.replace(FOLDER, str(DEPLOYED)) for name, value in INCLUDED.items()}
    assert findings(programs) == ()
    assert set(CLEAN) - {"SlurmctldHost[0]"} == set(INCLUDED)


CASES: tuple[tuple[str, dict[str, str], str, str], ...] = (
    ("SuspendTime: finite", {"SuspendTime": "INFINITE"}, "SuspendTime=INFINITE: Slurm powers down no", "=31536000"),
    ("SuspendTime: finite", {"SuspendTime": "NONE"}, "SuspendTime=INFINITE: Slurm powers down no", "=31536000"),
    ("SuspendTime: long", {"SuspendTime": "0 sec"}, "SuspendTime=0: Slurm itself suspends", "=31536000"),
    ("SuspendTime: long", {"SuspendTime": "600 sec"}, "SuspendTime=600: Slurm itself suspends", "=31536000"),
    (
        "SuspendProgram, ResumeProgram: set",
        {"ResumeProgram": ""},
        "ResumeProgram is not set: Slurm has no node woken for a job",
        f"ResumeProgram={FOLDER}/offpeak-resume",
    ),
    ("SuspendProgram, ResumeProgram: set", {"SuspendProgram": ""}, "SuspendProgram is not set", "offpeak-suspend"),
    ("SuspendProgram, ResumeProgram: can be run", {"ResumeProgram": "/none/wake"}, "no such file: slurmctld", "mend"),
    ("SuspendProgram, ResumeProgram: offpeak's", {"SuspendProgram": "/bin/true"}, "is not offpeak's", "Program=/usr"),
    ("ResumeFailProgram", {"ResumeFailProgram": ""}, "ResumeFailProgram is not set: the agent", "offpeak-resume-fail"),
    ("ResumeFailProgram", {"ResumeFailProgram": "/bin/true"}, "it is not offpeak's: the agent", "offpeak-resume-fail"),
    ("ResumeTimeout", {"ResumeTimeout": "240 sec"}, "ResumeTimeout=240, and boots took up to", "ResumeTimeout=1400"),
    ("ReturnToService", {"ReturnToService": "1"}, "ReturnToService=1: a node that Slurm took for", "ReturnToService=2"),
    ("SlurmdTimeout", {"SlurmdTimeout": "60 sec"}, "SlurmdTimeout=60: Slurm takes a node", "SlurmdTimeout=300"),
    ("SlurmdTimeout", {"SuspendTimeout": "400 sec"}, "=300 with SuspendTimeout=400: Slurm", "SlurmdTimeout=460"),
    ("ResumeRate", {"ResumeRate": "2 nodes/min"}, "ResumeRate=2: Slurm requests fewer nodes", "ResumeRate=120"),
    ("SuspendRate", {"SuspendRate": "2 nodes/min"}, "SuspendRate=2: Slurm learns late", "SuspendRate=0"),
    (
        "power_save_interval",
        {"SlurmctldParameters": "cloud_dns,power_save_interval=90"},
        "SlurmctldParameters=power_save_interval=90: slurmctld wakes",
        "take power_save_interval out",
    ),
    (
        "idle_on_node_suspend",
        {"SlurmctldParameters": "idle_on_node_suspend"},
        "a node that was drained",
        "take idle_on",
    ),
    ("max_powered_nodes", {"SlurmctldParameters": "max_powered_nodes=2"}, "=2, and Slurm has 3 nodes", "take max_pow"),
    ("SuspendExcNodes, SuspendExcParts", {"SuspendExcNodes": "n[1,9]"}, "not switched off: n1", "take n1 out of nodes"),
    ("SuspendExcNodes, SuspendExcParts", {"SuspendExcNodes": "ALL"}, "not switched off: n[1-3]", "take n[1-3] out"),
    ("SuspendExcNodes, SuspendExcParts", {"SuspendExcParts": "big"}, "not switched off: n3", "out of SuspendExcParts"),
    ("SuspendExcNodes: known nodes", {"SuspendExcNodes": "login"}, "names login, which is not a node", "NodeSet"),
)


@pytest.mark.parametrize(("rule", "settings", "message", "hint"), CASES)
def test_what_breaks_a_rule(rule: str, settings: dict[str, str], message: str, hint: str) -> None:
    found = findings(settings)
    (finding,) = [each for each in found if each.rule.name == rule]
    assert message in finding.message
    assert hint in finding.hint
    others = {each.rule.name for each in found} - {rule}
    assert others <= {"SuspendExcNodes: known nodes", "SlurmdTimeout"}


def test_rules_for_partitions_and_nodes() -> None:
    shown = f"{BATCH}\nPartitionName=big SuspendTime=300 ResumeTimeout=GLOBAL"
    (finding,) = findings({}, shown)
    assert finding.message == (
        "partition big: SuspendTime=300: Slurm itself suspends its idle nodes; not switched off: n3"
    )
    assert "PartitionName=big" in finding.hint
    (finding,) = findings({}, f"{BATCH}\nPartitionName=big SuspendTime=INFINITE PowerDownOnIdle=YES")
    assert (finding.what, finding.nodes) == ("partition big: PowerDownOnIdle=YES", frozenset({"n3"}))
    # The longest of a node's partitions counts.
    short = {"ResumeTimeout": "100 sec"}
    (finding,) = findings(short, f"{BATCH}\nPartitionName=big SuspendTime=NONE ResumeTimeout=900")
    assert finding.nodes == {"n1", "n2"}
    assert findings(short, boots_s=()) == ()
    limit = {"ResumeTimeout": "300 sec"}
    assert findings(limit, boots_s=(200.0, 250.0, 290.0, 800.0)) == (), "one slow boot of four"
    for too_slow in ((700.0,), (200.0, 250.0, 290.0, 700.0, 800.0)):
        assert [each.rule.name for each in findings(limit, boots_s=too_slow)] == ["ResumeTimeout"]
    (finding,) = findings({}, nodes=(node("n1", "IDLE+CLOUD+POWERED_DOWN"), *NODES[1:]))
    assert (finding.what, finding.nodes) == ("State=CLOUD", frozenset({"n1"}))


def test_the_suspend_time_of_each_node_in_slurm_26() -> None:
    nodes = tuple(node(name, suspend_s=31_536_000.0) for name in sorted(ALL))
    assert findings({}, nodes=nodes) == ()
    own = (nodes[0]._replace(suspend_s=600.0), nodes[1]._replace(suspend_s=math.inf), nodes[2])
    suspends, never = findings({}, nodes=own)
    assert (suspends.what, suspends.nodes) == ("NodeName lines: SuspendTime=600", frozenset({"n1"}))
    assert (never.what, never.nodes) == ("NodeName lines: SuspendTime=INFINITE", frozenset({"n2"}))
    assert never.rule.excludes
    # A node's own value counts in place of that of a partition, and of the cluster's.
    suspending = f"{BATCH}\nPartitionName=big SuspendTime=300"
    assert [each.nodes for each in findings({}, suspending, nodes=nodes)] == []
    assert [each.nodes for each in findings({}, suspending)] == [{"n3"}]
    everywhere = findings({"SuspendTime": "600 sec"}, nodes=nodes)
    assert [(each.what, each.nodes) for each in everywhere] == [("SuspendTime=600", frozenset())]


def test_the_rights_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, level = findings({}, rights=NOBODY)
    assert hidden.message == (
        "PrivateData=jobs in slurm.conf hides what belongs to others from nobody: a node whose jobs are hidden looks"
        " free; not switched off: n[1-3]"
    )
    assert level.severity is Severity.ADVICE
    assert (
        level.message
        == "nobody's AdminLevel is None: Slurm refuses its orders to nodes, and below Operator those to jobs"
    )
    assert hidden.hint == level.hint == NOBODY.hint
    limited = {"SlurmUser": "slurm(64030)", "SlurmctldParameters": "cloud_dns,rl_enable,rl_refill_rate=3"}
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    (finding,) = findings(limited)
    assert "answers this user 30 requests, then 3 a second: many changes" in finding.message
    assert findings(limited | {"SlurmctldParameters": "rl_enable,rl_bucket_size=1000"}) == ()
    for spared in (0, 64030):
        monkeypatch.setattr(os, "geteuid", lambda uid=spared: uid)
        assert findings(limited) == ()


def test_a_site_without_nodes_to_switch_has_rules_for_its_queue_only() -> None:
    lines = "SuspendTime = INFINITE\nReturnToService = 0\n"
    contract = traits_of_text(lines.encode(), BATCH.encode(), NOBODY).contract
    assert [each.rule.name for each in check_contract(contract, ManagedSite(NODES))] == ["PrivateData", "AdminLevel"]


def test_every_rule_has_a_case() -> None:
    tested = {rule for rule, *_ in CASES}
    tested |= {"PrivateData", "AdminLevel", "rl_enable", "CLOUD", "PowerDownOnIdle"}
    tested |= {"next_program.conf", "job_submit.lua, defer"}
    tested |= {"SuspendTime of a partition", "SuspendTime of a node", "SuspendTime of a node: finite"}
    assert {rule.name for rule in SLURM_RULES} == tested


@pytest.mark.parametrize(
    ("mode", "uid", "problem"),
    [
        (0o755, 0, ""),
        (0o755, 64030, ""),
        (0o750, 64030, "SlurmUser may not run it"),
        (0o644, 0, "cannot be run"),
        (0o775, 0, "others than its owner may write it"),
        (None, 0, "no such file"),
    ],
)
def test_a_program_that_slurmctld_cannot_run(tmp_path: Path, mode: int | None, uid: int, problem: str) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.owner() == tmp_path.owner() and folder != Path("/tmp"):
            folder.chmod(0o755)
    program = tmp_path / "resume"
    if mode is not None:
        program.touch()
        program.chmod(mode)
    assert find_problem_of_file(str(program), uid) == problem


def test_the_files_of_another_controller_are_not_known() -> None:
    assert findings({"ResumeProgram": "/none/wake", "SlurmctldHost[0]": "elsewhere(10.0.0.1)"}) == ()


def test_a_power_action_of_slurm_26(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f'PowerAction=wake Location=slurmctld Program="{DEPLOYED}/offpeak-resume --quick"\n'
        f'PowerAction=away Location=slurmd Program="{DEPLOYED}/offpeak-suspend"\n'
    )
    named = {"SLURM_CONF": str(conf), "ResumeProgram": "wake"}
    assert findings(named) == ()
    (finding,) = findings(named | {"SuspendProgram": "away"})
    assert "SuspendProgram=away: is a PowerAction that runs on the node, which may be off" in finding.message
    (finding,) = findings(named | {"ResumeProgram": "awake"})
    assert "ResumeProgram=awake: is neither an absolute path nor a PowerAction in slurm.conf" in finding.message


def test_hints_name_files_that_exist() -> None:
    hints = " ".join(
        each.hint for settings in ({"ResumeProgram": ""}, {"SuspendProgram": ""}) for each in findings(settings)
    )
    hints += " ".join(each.hint for each in findings({"ResumeFailProgram": ""}))
    named = set(re.findall(rf"{FOLDER}/(\S+)", hints))
    assert named == set(PROGRAMS.values())
    assert {INCLUDED[setting] for setting in PROGRAMS} == {f"{FOLDER}/{name}" for name in named}
    assert all((DEPLOYED / name).is_file() for name in named)
    packaged = (REPOSITORY / "deploy/package/nfpm.yaml").read_text()
    assert all(f"dst: {FOLDER}/{name}" in packaged for name in named)


def test_the_suspend_time_of_a_node_in_text_and_json() -> None:
    line = b"NodeName=n1 State=IDLE CPUTot=4 LastBusyTime=0 ResumeAfterTime=None SuspendTime="
    shown = [nodes_of_text(line + value)[0].suspend_s for value in (b"600", b"INFINITE", b"-2")]
    assert shown == [600, math.inf, None]
    times = ({"set": True, "infinite": False, "number": 600}, {"set": False, "infinite": True}, {"set": False}, None)
    records = [{"name": f"n{at}", "state": ["IDLE"], "suspend_time": each} for at, each in enumerate(times)]
    answer = json.dumps({"nodes": records}).encode()
    assert [each.suspend_s for each in nodes_of_json(answer, source="scontrol")] == [600, math.inf, None, None]


def test_a_danger_keeps_its_nodes_awake_and_a_fault_does_not() -> None:
    suspending = findings({"ReturnToService": "0"}, f"{BATCH}\nPartitionName=big SuspendTime=300")
    assert {each.severity for each in suspending} == {Severity.DANGER, Severity.FAULT}
    assert find_nodes_kept_awake(NO_CONTRACT, suspending, NODES) == {"n3": "partition big: SuspendTime=300"}


def test_sets_with_a_count_and_states_keep_nodes_awake_as_they_are_now() -> None:
    text = b"SuspendExcNodes = n[1-3]:2,n[5,7]\nSuspendExcStates = PLANNED,DRAIN,MAINTENANCE\n"
    contract = traits_of_text(text, b"").contract

    def kept(*nodes: Node) -> dict[str, str]:
        return find_nodes_kept_awake(contract, (), nodes)

    two = dict.fromkeys(("n1", "n2"), "SuspendExcNodes=n[1-3]:2")
    assert kept(*NODES) == two
    busy = NODES[0]._replace(use=NodeUse.USED)
    assert set(kept(busy, *NODES[1:])) == {"n2", "n3"}
    asleep = NODES[0]._replace(power=PowerState.OFF)
    assert set(kept(asleep, *NODES[1:])) == {"n2", "n3"}
    of_all = traits_of_text(b"SuspendExcNodes = ALL:2\n", b"").contract
    assert find_nodes_kept_awake(of_all, (), NODES) == dict.fromkeys(("n1", "n2"), "SuspendExcNodes=ALL:2")
    assert kept(node("n8", "IDLE+PLANNED"), node("n9", "IDLE+MAINT")) == {
        "n8": "SuspendExcStates=PLANNED",
        "n9": "SuspendExcStates=MAINTENANCE",
    }
    drained = node("n8", "IDLE+DRAIN", closed=True)
    assert set(kept(drained)) == {"n8"}
    assert kept(drained._replace(reason="offpeak: it must sleep")) == {}


@pytest.mark.parametrize(
    ("shown", "level", "hidden", "hint"),
    [
        ("UserName=offpeak(990) DefAccount=a DefWckey= AdminLevel=Administrator", "Administrator", (), "sacctmgr"),
        ("UserName=offpeak(990) DefAccount=a DefWckey= AdminLevel=Not Set", "None", ("jobs",), "sacctmgr"),
        # As Slurm 25.11 shows a user whose number it has not found, and from whom it hides jobs.
        ("UserName=offpeak(4294967294) DefAccount= DefWckey= AdminLevel=Administrator", "None", ("jobs",), "getent"),
        ("User Records", "None", ("jobs",), "sacctmgr"),
    ],
)
def test_a_level_is_that_of_the_number_by_which_slurmctld_decides(
    shown: str, level: str, hidden: tuple[str, ...], hint: str, mocker: MockerFixture
) -> None:
    mocker.patch("os.geteuid", return_value=990)
    mocker.patch.object(slurm_rights, "user_name", return_value="offpeak")
    mocker.patch.object(slurm_rights, "ask", return_value=f"User Records\n\n{shown}\n".encode())
    rights = slurm_rights.read_rights({"SlurmUser": "slurm(64030)", "PrivateData": "jobs"}, timeout_s=1.0)
    assert (rights.level, rights.hidden) == (level, hidden)
    assert hint in rights.hint
