"""The agent's socket: the rights of its callers, and the limits of rude clients."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_socket import PUBLISHED, AgentSocket, agent_socket
from open_folder import open_folder
from queue_site import a_job

from offpeak.errors import BadInput, OffpeakError
from offpeak.plugin.scheduler.job import JobState
from offpeak.services.accounts.job_bills import JobBill
from offpeak.services.agent.requests import AgentRequest, Callers, NodeRequest, Rights, find_callers, make_reply
from offpeak.services.agent.socket_server import MOST_BYTES_OF_OTHERS, MOST_CLIENTS, MOST_OF_ONE_USER
from offpeak.services.agent.status import StatusSnapshot, fetch_snapshot, parse_status
from offpeak.services.unix_socket import AgentAnswers

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="acts as other users: needs root")
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(300)
    s.connect(sys.argv[1])
    s.sendall(sys.stdin.buffer.read())
    sys.stdout.buffer.write(b"".join(iter(lambda: s.recv(65536), b"")))
"""


@pytest.fixture
def path() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder / "run" / "agent.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[AgentSocket]:
    with agent_socket(path, Callers(os.geteuid())) as agent:
        yield agent


def say_as(uid: int, agent: AgentSocket, request: dict[str, str], *, groups: str = "") -> dict[str, object]:
    identity = [f"--reuid={uid}", f"--regid={uid}", f"--groups={groups}" if groups else "--clear-groups"]
    done = subprocess.run(
        ["setpriv", *identity, "/usr/bin/python3", "-c", ASK, agent.path],
        input=json.dumps(request).encode() + b"\n",
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def jobs_of(reply: object) -> list[str]:
    assert isinstance(reply, dict)
    return [job.job_id for job in parse_status(reply["published"]).jobs]


def test_root_hears_everything(agent: AgentSocket) -> None:
    assert parse_status(agent.say({"ask": "queue"})["published"]) == PUBLISHED
    assert jobs_of(agent.say({"ask": "why", "job": "1841"})) == ["1841"]
    reply = parse_status(agent.say({"ask": "status"})["published"])
    assert (reply.jobs, reply.problems) == ((), PUBLISHED.problems)


def test_the_picture_comes_without_jobs_that_were_seen(agent: AgentSocket) -> None:
    assert "just started" in str(agent.say({"ask": "picture"})["error"])
    agent.snapshot = StatusSnapshot(PUBLISHED, "Europe/Berlin", 0.0, 0.0)
    seen = repr(PUBLISHED.at_unix_s)
    all_of_it, rest = (fetch_snapshot(agent.path, jobs_seen_unix_s=at_s) for at_s in (None, float(seen)))
    assert (len(all_of_it.published.jobs), all_of_it.jobs_left_out) == (3, False)
    assert (rest.published.jobs, rest.jobs_left_out) == ((), True)


@AS_ROOT
def test_snapshot_is_refused_to_other_users(agent: AgentSocket) -> None:
    agent.snapshot = StatusSnapshot(PUBLISHED, "Europe/Berlin", 0.0, 0.0)
    assert say_as(NOBODY, agent, {"ask": "picture"})["error"] == "only operators and viewers may see everything at once"


@AS_ROOT
def test_other_users_get_their_own_jobs_and_totals(agent: AgentSocket) -> None:
    reply = say_as(NOBODY, agent, {"ask": "queue"})
    assert jobs_of(reply) == ["1850"]
    seen = parse_status(reply["published"])
    assert (seen.problems, seen.nodes, seen.saved_today) == ((), PUBLISHED.nodes, PUBLISHED.saved_today)
    assert jobs_of(say_as(NOBODY, agent, {"ask": "why", "job": "1850"})) == ["1850"]
    assert say_as(NOBODY, agent, {"ask": "why", "job": "1841"})["error"] == "job 1841 is another user's"


@AS_ROOT
def test_other_users_get_the_bills_of_their_own_jobs_whatever_they_ask_for(agent: AgentSocket) -> None:
    agent.bills = [bill("7", "nobody"), bill("8", "ann")]
    for request in ({"ask": "bills"}, {"ask": "bills", "user": "ann"}, {"ask": "bills", "user": "nobody"}):
        assert [each["job"] for each in say_as(NOBODY, agent, request)["bills"]] == ["7"]
    assert say_as(NOBODY, agent, {"ask": "bills", "job": "8"})["bills"] == []
    assert [each["job"] for each in agent.say({"ask": "bills", "user": "ann"})["bills"]] == ["8"]
    assert "Unix seconds" in agent.say({"ask": "bills", "from_unix_s": "noon"})["error"]


def bill(job: str, user: str) -> JobBill:
    return JobBill(job, user, "physics", "batch", "n1", 0.0, 3600.0, 7200.0, 3.6e6, 0.1, "EUR", 0.3, "measured")


@AS_ROOT
def test_the_operators_group_hears_everything_also_as_a_further_group(path: Path) -> None:
    with agent_socket(path, Callers(0, operators_gid=4242)) as agent:
        assert len(jobs_of(say_as(NOBODY, agent, {"ask": "queue"}, groups="7,4242"))) == 3
        assert len(jobs_of(say_as(NOBODY, agent, {"ask": "queue"}, groups="7"))) == 1
        assert "error" in say_as(NOBODY, agent, {"tell": "suspend", "nodes": "n1"}, groups="4242")


@AS_ROOT
def test_only_the_scheduler_may_tell(path: Path) -> None:
    tell = {"tell": "resume", "nodes": "node[1-2]", "text": "{}"}
    with agent_socket(path, Callers(0)) as agent:
        assert "only the scheduler's user" in str(say_as(NOBODY, agent, tell)["error"])
        assert agent.requests == []
    with agent_socket(path, Callers(0, scheduler_uid=NOBODY)) as agent:
        assert say_as(NOBODY, agent, tell) == {"nodes": ["node1", "node2"]}
        assert agent.requests == [NodeRequest("resume", ("node1", "node2"), "{}")]


def test_a_request_that_cannot_be_done_is_refused(agent: AgentSocket) -> None:
    agent.refuse = OffpeakError("not opted in", hint="nodes below [agent]")
    reply = agent.say({"tell": "resume", "nodes": "n1"})
    assert reply == {"error": "not opted in", "hint": "nodes below [agent]"}


@pytest.mark.parametrize(
    ("asked", "array"),
    [("1841_3", "1841"), ("1841_[1-4%2]", "1841"), ("77[3]", "77[].head"), ("77[3].head", "77[].head")],
)
def test_a_waiting_task_is_explained_by_its_array(agent: AgentSocket, asked: str, array: str) -> None:
    of_pbs = replace(PUBLISHED.jobs[0], job_id="77[].head")
    agent.published = replace(PUBLISHED, jobs=(*PUBLISHED.jobs, of_pbs))
    assert jobs_of(agent.say({"ask": "why", "job": asked})) == [array]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"\n", "not a request"),
        (b"[]\n", "not a request"),
        (b"\xff\xfe\n", "not a request"),
        (b"[" * 5000 + b"\n", "not a request"),
        (b'{"ask": "why", "job": "9"}\n', "job 9: the agent does not know it"),
        (b'{"ask": "why"}\n', "does not know it"),
        (b'{"ask": ["why"]}\n', "is not a known query"),
        (b'{"ask": "passwords"}\n', "is not a known query"),
        (b'{"tell": "resume", "nodes": 7}\n', "is not a known request"),
        (b'{"tell": "explode", "nodes": "n1"}\n', "is not a known request"),
        (b'{"tell": "resume", "nodes": "n[1-"}\n', "not a node set"),
        (b'{"tell": "resume", "nodes": ""}\n', "names no node"),
        (b'{"tell": "resume", "nodes": "n[1-99999999]"}\n', "names more than 100,000 nodes"),
        (b"x" * (1024 * 1024 + 2), "this one is too long"),
    ],
)
def test_bad_requests_get_one_line(agent: AgentSocket, line: bytes, error: str) -> None:
    assert error in agent.say(line)["error"]
    assert agent.requests == []


def test_a_job_that_has_just_ended_is_not_unknown() -> None:
    ran = a_job(7, job_id="7.head", state=JobState.ENDED, start_s=1, user="ann")
    never = a_job(8, state=JobState.ENDED, user="ann")

    def why(job: str, user: str | None = None) -> str:
        request = AgentRequest({"ask": "why", "job": job}, Rights(True, True, user is None), user)
        with pytest.raises(BadInput) as refused:
            make_reply(request, PUBLISHED, lambda _: None, ended=lambda: (ran, never))
        return str(refused.value)

    assert why("7") == "job 7 has ended, and is not booked yet"
    assert why("8") == "job 8 has ended, and never ran"
    assert why("7.head").endswith("booked yet")
    assert why("8", "bob") == "job 8: the agent does not know it"


def test_reply_before_the_first_cycle(agent: AgentSocket) -> None:
    agent.published = None
    assert "just started" in agent.say({"ask": "status"})["error"]


def test_hanging_client_blocks_no_other(agent: AgentSocket) -> None:
    with agent.connected() as silent, agent.connected() as deaf:
        silent.sendall(b'{"ask"')
        deaf.sendall(b'{"ask": "queue"}\n')
        assert "published" in agent.say({"ask": "status"})


def test_hanging_client_is_disconnected(path: Path) -> None:
    with agent_socket(path, patience_s=0.5) as agent, agent.connected() as silent:
        silent.sendall(b'{"ask"')
        assert silent.recv(1) == b""


@AS_ROOT
def test_a_user_cannot_keep_the_scheduler_out(agent: AgentSocket) -> None:
    hold = "import socket,sys,time\n"
    hold += f"a=[socket.socket(socket.AF_UNIX) for _ in range({MOST_CLIENTS + 20})]\n"
    hold += "[s.connect(sys.argv[1]) for s in a]; print('held', flush=True); time.sleep(3600)"
    command = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", hold, agent.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as rude:
        try:
            assert rude.stdout is not None
            assert rude.stdout.readline() == b"held\n"
            assert agent.say({"tell": "resume", "nodes": "n1"}) == {"nodes": ["n1"]}
        finally:
            rude.kill()
    assert MOST_OF_ONE_USER < MOST_CLIENTS


@AS_ROOT
def test_users_together_keep_no_operator_out(path: Path) -> None:
    hold = f"""
import os, socket, sys, time
held = []
for uid in range(70001, {70001 + MOST_CLIENTS // MOST_OF_ONE_USER + 2}):
    os.seteuid(uid)
    for _ in range({MOST_OF_ONE_USER}):
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].connect(sys.argv[1])
    os.seteuid(0)
print("held", flush=True)
time.sleep(3600)
"""
    with (
        agent_socket(path, Callers(0, operators_gid=70100)) as agent,
        subprocess.Popen(["/usr/bin/python3", "-c", hold, agent.path], stdout=subprocess.PIPE) as rude,
    ):
        try:
            assert rude.stdout is not None
            assert rude.stdout.readline() == b"held\n"
            reply = say_as(NOBODY, agent, {"ask": "status"}, groups="70100")
            assert "published" in reply
        finally:
            rude.kill()


@AS_ROOT
def test_request_line_of_other_users_is_limited(agent: AgentSocket) -> None:
    reply = say_as(NOBODY, agent, {"ask": "status", "more": "x" * MOST_BYTES_OF_OTHERS})
    assert "this one is too long" in str(reply["error"])


def test_socket_is_open_to_all_users_and_removed_with_the_agent(path: Path) -> None:
    with agent_socket(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert list(path.parent.iterdir()) == []


def test_a_dead_agents_socket_is_replaced_a_living_ones_not(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    with agent_socket(path) as agent:
        with pytest.raises(AgentAnswers), agent_socket(path):
            pass
        assert "published" in agent.say({"ask": "status"})


def test_file_that_is_no_socket_is_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(BadInput, match="not a socket"), agent_socket(path):
        pass
    assert path.read_text() == "precious"


def test_a_folder_that_everybody_may_write_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(BadInput, match="every user"), agent_socket(path):
        pass


def test_a_path_too_long(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="too long"), agent_socket(tmp_path / ("x" * 100)):
        pass


def test_groups_and_users_by_name() -> None:
    assert find_callers("root", "root") == Callers(os.geteuid(), 0, 0)
    assert find_callers("nobody-of-that-name", None) == Callers(os.geteuid())
    assert find_callers("root", None, "root") == Callers(os.geteuid(), 0, viewers_gid=0)
    with pytest.raises(BadInput, match=r"agent\.operators: there is no group"):
        find_callers("root", "nobody-of-that-name")
    with pytest.raises(BadInput, match=r"agent\.viewers: there is no group"):
        find_callers("root", None, "nobody-of-that-name")
    with pytest.raises(BadInput, match=r"agent\.viewers: root is the group of operators too"):
        find_callers("root", "root", "root")


def test_importing_is_light() -> None:
    code = (
        "import sys, offpeak.services.agent.socket_server\n"
        "print('pydantic' in sys.modules, 'ClusterShell' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
