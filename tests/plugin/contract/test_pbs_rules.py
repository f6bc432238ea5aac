"""Each rule for OpenPBS and Torque, on the stand-ins of both servers: what breaks it, and in which words."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pbs_standin import StandIn, installed, standin

from offpeak.model.orders import PowerState
from offpeak.plugin.contract.pbs import OPENPBS_RULES, TORQUE_RULES
from offpeak.plugin.contract.rules import ContractFinding, ManagedSite, check_contract
from offpeak.plugin.pbs.jobs import PbsUser
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.openpbs_server import HOOK_FAILURES, INSTALL_HINT
from offpeak.plugin.pbs.scheduler import PbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.power.check.findings import CheckVerdict, check_scheduler
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

REPOSITORY = Path(__file__).parents[3]
CONFIG = {TORQUE: "sort_by: high_priority_first ALL\nload_balancing: false ALL\n", OPENPBS: "fair_share: false ALL\n"}
ROOT = PbsUser("root", "head")
ALL = frozenset({"node1", "node2", "node3"})


class Server:
    """A stand-in that keeps all rules, and its scheduler with a sched_config."""

    def __init__(self, running: StandIn, folder: Path) -> None:
        self.running, self.kind, self.folder = running, running.pbs.kind, folder
        self.config = folder / "sched_priv" / "sched_config"
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(CONFIG[self.kind])
        if self.kind == OPENPBS:
            self.qmgr("set pbshook PBS_power enabled = True")

    def qmgr(self, command: str) -> None:
        self.running.run("qmgr", "-c", command)

    def scheduler(self, user: PbsUser = ROOT) -> PbsScheduler:
        settings = PbsSettings(timeout_s=300, home=self.folder)
        made = TorqueScheduler if self.kind == TORQUE else OpenPbsScheduler
        return made(settings, user=user)

    def findings(self, user: PbsUser = ROOT, **of_node1: object) -> dict[str, ContractFinding]:
        """Return the findings by their rules; the fields of node1 are as the server would show them."""
        scheduler = self.scheduler(user)
        traits = scheduler.traits()
        one, *others = scheduler.view().nodes if "node" not in of_node1 else ()
        found = check_contract(traits.contract, ManagedSite((one._replace(**of_node1), *others), ALL))
        assert len({each.what for each in found}) == len(found)
        return {each.rule.name: each for each in found}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in (TORQUE, OPENPBS)}
    with standin(TORQUE, folders[TORQUE]) as torque, standin(OPENPBS, folders[OPENPBS]) as openpbs:
        yield {each.pbs.kind: Server(each, folders[each.pbs.kind]) for each in (torque, openpbs)}


@pytest.fixture
def server(servers: dict[str, Server], kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = servers[kind]
    monkeypatch.setenv("PATH", found.running.path)
    monkeypatch.setenv(HOOK_FAILURES, str(found.folder / "failures"))
    conf = found.folder / "pbs.conf"
    conf.write_text(f"PBS_HOME={found.folder}\n")
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    before = dict(found.running.pbs.attributes)
    yield found
    found.config.write_text(CONFIG[kind])
    found.running.do(lambda pbs: pbs.attributes.clear())
    found.running.do(lambda pbs: pbs.attributes.update(before))


ATTRIBUTES = (
    (TORQUE, "scheduling", "set server scheduling = false", "scheduling = False: nothing is started"),
    (OPENPBS, "scheduling", "set server scheduling = false", "scheduling = False: nothing is started"),
    (TORQUE, "scheduler_iteration", "set server scheduler_iteration = 86400", "= 86400: nodes that are up for a job"),
    (OPENPBS, "scheduler_iteration", "set server scheduler_iteration = 86400", "= 86400: nodes that are up for a job"),
    (TORQUE, "mom_job_sync", "set server mom_job_sync = False", "mom_job_sync = False: a job that was lost"),
    (TORQUE, "node_check_rate", "set server node_check_rate = 20", "node_check_rate = 20: below 60 s nodes"),
    (TORQUE, "node_check_rate", "set server node_check_rate = 3600", "node_check_rate = 3600: below 60 s nodes"),
    (TORQUE, "disable_automatic_requeue", "set server disable_automatic_requeue = True", "a job is lost whose start"),
    (TORQUE, "node_pack", "set server node_pack = False", "node_pack = False: jobs are scattered"),
    (TORQUE, "keep_completed", "set server keep_completed = 604800", "keep_completed = 604800: the agent reads all"),
    (TORQUE, "cray_enabled", "set server cray_enabled = True", "cray_enabled = True: the nodes of a Cray"),
    (OPENPBS, "PBS_power", "set pbshook PBS_power enabled = False", "the hook PBS_power is disabled: pbs_rsub is"),
    (OPENPBS, "node_fail_requeue", "set server node_fail_requeue = 0", "node_fail_requeue = 0: a job that was lost"),
    (OPENPBS, "job_history_duration", "set server job_history_enable = True", "job_history_duration = 336:00:00: the"),
    (OPENPBS, "job_sort_formula: our term", "set server job_sort_formula = ncpus", "has no offpeak_prio: jobs do not"),
    (
        OPENPBS,
        "job_sort_formula: known terms",
        'set server job_sort_formula = "fair_share_perc + offpeak_prio"',
        "job_sort_formula 'fair_share_perc' cannot be evaluated: the server does not show fair_share_perc: jobs keep",
    ),
    (
        OPENPBS,
        "eligible_time_enable",
        'set server job_sort_formula = "eligible_time + offpeak_prio"',
        "eligible_time_enable = False, and job_sort_formula has eligible_time: jobs do not age",
    ),
)


@pytest.mark.parametrize(("kind", "rule", "command", "message"), ATTRIBUTES)
def test_what_qmgr_sets(server: Server, rule: str, command: str, message: str) -> None:
    assert server.findings() == {}
    server.qmgr(command)
    found = server.findings()
    assert list(found) == [rule]
    assert message in found[rule].message


CONFIGS = (
    (TORQUE, "sort_by", "sort_by: shortest_job_first ALL", "pbs_sched sorts jobs by shortest_job_first: no known way"),
    (
        TORQUE,
        "load_balancing",
        f"{CONFIG[TORQUE]}load_balancing_rr: true ALL",
        "load_balancing_rr: true in sched_config",
    ),
    (OPENPBS, "job_sort_key, fair_share", 'job_sort_key: "cput LOW" ALL', "sched_config orders jobs by job_sort_key"),
    (OPENPBS, "job_sort_key, fair_share", "fair_share: True ALL", "sched_config orders jobs by fair_share: offpeak"),
    (
        OPENPBS,
        "smp_cluster_dist",
        "smp_cluster_dist: round_robin",
        "smp_cluster_dist: round_robin in sched_config: jobs",
    ),
    (OPENPBS, "round_robin", "round_robin: False all\nround_robin: True non_prime", "round_robin: True in sched"),
    (OPENPBS, "node_sort_key", 'node_sort_key: "ncpus HIGH unused" ALL', "node_sort_key: ncpus HIGH unused in"),
    # A value of prime time is not replaced by that of the other hours.
    (
        OPENPBS,
        "smp_cluster_dist",
        "smp_cluster_dist: round_robin prime\nsmp_cluster_dist: pack non_prime",
        "smp_cluster_dist: round_robin in sched_config: jobs",
    ),
    (OPENPBS, "job_sort_key, fair_share", "fair_share: true prime\nfair_share: false non_prime", "by fair_share: off"),
    (
        TORQUE,
        "load_balancing",
        "sort_by: high_priority_first ALL\nload_balancing: true prime\nload_balancing: false non_prime",
        "load_balancing: true in sched_config",
    ),
    (
        TORQUE,
        "sort_by",
        "sort_by: high_priority_first prime\nsort_by: shortest_job_first non_prime",
        "pbs_sched sorts jobs by high_priority_first and shortest_job_first: no known way",
    ),
)


@pytest.mark.parametrize(("kind", "rule", "text", "message"), CONFIGS)
def test_what_sched_config_says(server: Server, rule: str, text: str, message: str) -> None:
    server.config.write_text(f"# a comment\n{text}\n")
    found = server.findings()
    assert list(found) == [rule]
    assert message in found[rule].message
    assert "sched_config" in found[rule].hint or rule == "job_sort_key, fair_share"


@pytest.mark.parametrize("kind", [TORQUE])
def test_a_scheduler_whose_order_is_not_known(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.config.unlink()
    found = server.findings()["sort_by"]
    assert found.message == f"{server.config}: No such file or directory: no known way changes the order of jobs"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("maui\n")
    monkeypatch.setattr("offpeak.plugin.pbs.torque.find_reorder_method.__kwdefaults__", {"processes": tmp_path})
    found = server.findings()["sort_by"]
    assert found.message == "maui runs here: no known way changes the order of jobs"
    assert "USERPRIOWEIGHT" in found.hint


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_a_sched_config_that_the_agent_may_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.running.run("qsub", "-l", "select=1:ncpus=8" if server.kind == OPENPBS else "nodes=1", user="ann")
    config, read = server.config, Path.read_text

    def refuse(path: Path, *arguments: str, **options: str) -> str:
        if path == config:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    (found,) = server.findings(PbsUser("root", "head")).values()
    (job,) = server.scheduler().view().jobs
    if server.kind == OPENPBS:
        assert found.message.startswith(f"root cannot read {config}: it may order jobs, so they keep their order")
        assert (found.hint, job.priority_class) == (INSTALL_HINT, f"0/0/{job.job_id}")
    else:
        assert "Permission denied" in found.message


@pytest.mark.parametrize("kind", [OPENPBS])
@pytest.mark.parametrize("formula", ["", "ncpus + offpeak_prio"])
def test_jobs_of_two_users_change_no_places_without_a_sched_config_on_this_host(server: Server, formula: str) -> None:
    server.config.unlink()
    if formula:
        server.qmgr(f'set server job_sort_formula = "{formula}"')
    jobs = [server.running.run("qsub", "-l", "select=1:ncpus=8", user=user) for user in ("ann", "ann", "bob")]
    found = server.findings()
    classes = {job.job_id: job.priority_class for job in server.scheduler().view().jobs if job.job_id in jobs}
    own = ("ann", "ann", "bob") if formula else jobs
    assert [classes[job] for job in jobs] == [f"0/0/{entity}" for entity in own]
    assert found["sched_config"].message.startswith(f"root cannot read {server.config}: it may order jobs")
    server.running.run("qdel", *jobs)


NODES = (
    (TORQUE, "power_state", {"power": PowerState.OFF}, "power_state is not Running: another program"),
    (OPENPBS, "poweroff_eligible", {"suspend_s": 1800}, "poweroff_eligible = True: the hook PBS_power may"),
    (
        OPENPBS,
        "states of nodes",
        {"use": NodeUse.UNKNOWN, "native_state": "free,several vnodes"},
        "node1: the state 'free,several vnodes' is not known: such a node is never switched off",
    ),
)


@pytest.mark.parametrize(("kind", "rule", "fields", "message"), NODES)
def test_what_a_node_shows(server: Server, rule: str, fields: dict[str, object], message: str) -> None:
    found = server.findings(**fields)
    assert list(found) == [rule]
    assert message in found[rule].message
    assert found[rule].nodes == {"node1"}


@pytest.mark.parametrize("kind", [OPENPBS])
def test_a_hook_that_failed_and_a_server_that_is_not_set_up(server: Server) -> None:
    failures = server.folder / "failures"
    failures.mkdir()
    (failures / "offpeak_runjob").write_text("KeyError: 'x'\n")
    found = server.findings()
    assert list(found) == ["hooks and reservations"]
    assert found["hooks and reservations"].what == "the hook offpeak_runjob failed: KeyError: 'x'"
    os.utime(failures / "offpeak_runjob", (time.time() - 10**6,) * 2)
    installed(server.running, server.folder, "uninstall")
    found = server.findings()
    assert set(found) == {
        "resources",
        "job_sort_formula: our term",
        "offpeak_runjob",
        "offpeak_queuejob",
        "offpeak_modifyjob",
    }
    hints = {each.hint for each in found.values()}
    installed(server.running, server.folder)
    assert hints == {INSTALL_HINT}
    # The hint names files that exist.
    assert "`deploy/openpbs/setup install`" in INSTALL_HINT
    assert (REPOSITORY / "deploy/openpbs/setup").is_file()
    assert (
        "src: deploy/openpbs/, dst: /usr/share/offpeak/openpbs" in (REPOSITORY / "deploy/package/nfpm.yaml").read_text()
    )


@pytest.mark.parametrize("kind", [OPENPBS])
def test_a_scheduler_that_does_not_run(server: Server) -> None:
    server.running.do(lambda pbs: setattr(pbs, "sched_state", "down"))
    found = server.findings()
    server.running.do(lambda pbs: setattr(pbs, "sched_state", "idle"))
    assert [each.message for each in found.values()] == ["the scheduler default is down: it starts no job"]


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_a_user_who_sees_nothing_or_may_order_nothing(server: Server) -> None:
    ann = PbsUser("ann", "head.site.org")
    server.qmgr("set server query_other_jobs = False")
    (hidden,) = check_contract(server.scheduler(ann).traits().contract, ManagedSite((), ALL))
    assert hidden.what == "ann is not a manager, and query_other_jobs is not set: ann sees no jobs of others"
    assert hidden.reason == "a node whose jobs are hidden looks free; not switched off: node[1-3]"
    server.qmgr("set server query_other_jobs = True")
    (refused,) = check_contract(server.scheduler(ann).traits().contract, ManagedSite((), ALL))
    assert refused.message == "ann is neither manager nor operator: the server refuses its orders"
    assert "managers += ann@head.site.org'" in refused.hint


def test_every_rule_has_a_case() -> None:
    tested = {rule for _, rule, *_ in (*ATTRIBUTES, *CONFIGS, *NODES)} | {"query_other_jobs", "managers"}
    tested |= {
        "hooks and reservations",
        "resources",
        "offpeak_runjob",
        "offpeak_queuejob",
        "offpeak_modifyjob",
        "sched_config",
        "pbs_sched",
    }
    assert {rule.name for rule in (*OPENPBS_RULES, *TORQUE_RULES)} == tested


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_the_check_names_how_jobs_change_places(server: Server) -> None:
    (good,) = check_scheduler("Torque", server.scheduler(), ManagedSite((), ALL))
    assert good.verdict is CheckVerdict.GOOD
    way = "qalter -p, as pbs_sched sorts by" if server.kind == TORQUE else "qalter -l offpeak_prio, a term of job_sort"
    assert good.message.startswith(f"answers; orders by {way}")


def test_a_server_that_is_down_or_shows_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin(OPENPBS, tmp_path, nodes=0) as running:
        monkeypatch.setenv("PATH", running.path)
        running.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
        scheduler = OpenPbsScheduler(PbsSettings(timeout_s=300))
        (empty,) = check_scheduler("Openpbs", scheduler, ManagedSite())
        assert (empty.verdict, empty.message) == (CheckVerdict.BAD, "it shows no nodes")
    (down,) = check_scheduler("Openpbs", scheduler, ManagedSite())
    assert down.verdict is CheckVerdict.BAD


def test_a_node_of_torque_that_sleeps_by_us_breaks_no_rule() -> None:
    (rule,) = [rule for rule in TORQUE_RULES if rule.name == "power_state"]
    ours = Node(
        *("node1", "offline", NodeUse.FREE, PowerState.OFF, False, False, False, False, False),
        *("offpeak: asleep since 7", "", 7, (), (), 8, 0, 1000, None, None),
    )
    assert list(rule.find(None, ManagedSite((ours,), ALL))) == []
    assert [each.nodes for each in rule.find(None, ManagedSite((ours._replace(reason=""),), ALL))] == [{"node1"}]
