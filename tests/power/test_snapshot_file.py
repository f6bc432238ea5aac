"""State files: what is written is read again, and what is wrong is said with its key."""

import json
from dataclasses import replace

import numpy as np
import pytest
from example_state import snapshot_json, write_snapshot
from hypothesis import given
from hypothesis import strategies as st
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.errors import BadInput, CannotWrite
from offpeak.model.node_states import ACTIVE, OFF, asleep, coming_up
from offpeak.model.snapshot import Snapshot
from offpeak.prices.peak import Peak
from power.whatif.snapshot_file import read_snapshot

EXAMPLE = snapshot_of(
    running=[(2, NOW_S - 9, NOW_S - 5, NOW_S + 60)], queued=[(1, NOW_S - 3, 50), (3, NOW_S, 20)],
    node_state=[ACTIVE, ACTIVE, asleep(OFF), coming_up(OFF)], ready_s=[NOW_S, NOW_S, NOW_S, NOW_S + 30],
)  # fmt: skip


def plain(snapshot: Snapshot) -> list:
    """Return everything in a snapshot, to compare it."""
    columns = [*vars(snapshot.running).items(), *vars(snapshot.queued).items()]
    nodes = (snapshot.node_state.dtype, snapshot.node_state.tolist(), snapshot.ready_s.tolist())
    return [
        snapshot.now_s, snapshot.units_per_node, snapshot.wake_s, *nodes,
        *((name, column.dtype, column.tolist()) for name, column in columns),
    ]  # fmt: skip


@given(snapshots())
def test_written_snapshot_is_read_back(tmp_path_factory, snapshot):
    path = tmp_path_factory.getbasetemp() / "state.json"
    write_snapshot(snapshot, path)
    assert plain(read_snapshot(path)) == plain(snapshot)


def test_a_file_has_a_line_for_each_job():
    assert snapshot_json(EXAMPLE).splitlines()[1:] == [
        '  "version": 1,',
        '  "now_s": 1000,',
        '  "units_per_node": 1,',
        '  "wake_s": {"powersave": 1, "standby": 20, "off": 180},',
        '  "nodes": [',
        '    {"state": "active", "count": 2},',
        '    {"state": "asleep", "depth": "off", "count": 1},',
        '    {"state": "coming_up", "depth": "off", "ready_s": 1030, "count": 1}',
        "  ],",
        '  "running": [',
        '    {"size": 2, "submit_s": 991, "start_s": 995, "expected_end_s": 1060}',
        "  ],",
        '  "queued": [',
        '    {"size": 1, "submit_s": 997, "estimate_s": 50},',
        '    {"size": 3, "submit_s": 1000, "estimate_s": 20}',
        "  ]",
        "}",
    ]


def test_power_and_the_state_of_the_price_are_read_back(tmp_path):
    queued = replace(EXAMPLE.queued, node_power_w=np.array([0.0, 350.0]))
    changes = {"peak_from_s": np.array([NOW_S - 60, NOW_S + 60]), "peak": np.array([Peak.ON_PEAK, Peak.UNKNOWN])}
    write_snapshot(replace(EXAMPLE, queued=queued, **changes), tmp_path / "state.json")
    assert snapshot_json(read_snapshot(tmp_path / "state.json")).splitlines()[-8:] == [
        '    {"size": 1, "submit_s": 997, "estimate_s": 50},',
        '    {"size": 3, "submit_s": 1000, "estimate_s": 20, "node_power_w": 350}',
        "  ],",
        '  "peaks": [',
        '    {"from_s": 940, "peak": "on-peak"},',
        '    {"from_s": 1060, "peak": "unknown"}',
        "  ]",
        "}",
    ]


@pytest.mark.parametrize(
    ("path", "value", "message", "hint"),
    [
        (["version"], 2, "version: the file is of version 2", "this offpeak reads version 1"),
        (["now_s"], "noon", "now_s: 'noon' is no whole number", "without quotes"),
        (["now_s"], 1.5, "now_s: 1.5 is no whole number", "decimals"),
        (["now_s"], 2**60, "now_s: 1,152,921,504,606,846,976 is too large", "at most"),
        (["units_per_node"], 0, "units_per_node: 0 is too small", "at least 1"),
        (["nodez"], 0, "nodez: is no key of a state file", "did you mean nodes?"),
        (["wake_s"], 180, "wake_s: is no object", "{}"),
        (["wake_s", "off"], -1, "wake_s.off: -1 is too small", "at least 0"),
        (["wake_s", "of"], 1, "wake_s.of: is no key", "did you mean off?"),
        (["nodes"], {}, "nodes: is no list", "[]"),
        (["nodes"], [], "nodes: is empty", '{"state": "active", "count": 100}'),
        (["nodes", 0], 7, "nodes[0]: is no object", "{}"),
        (["nodes", 0, "state"], "asleeep", "nodes[0].state: 'asleeep' is unknown", "did you mean asleep?"),
        (["nodes", 0, "state"], ["active"], "nodes[0].state: ['active'] is unknown", "did you mean active?"),
        (["nodes", 0, "depth"], "off", "nodes[0].depth: is no key", "known: count, state"),
        (["nodes", 0, "count"], 10**9, "nodes[0].count: 1,000,000,000 is too large", "at most 1,000,000"),
        (["nodes", 1, "depth"], "of", "nodes[1].depth: 'of' is unknown", "did you mean off?"),
        (
            ["nodes", 0, "state"],
            "failed",
            "running: jobs hold 2 units, and nodes that are up or coming up have 1",
            "states",
        ),
        (["running", 0, "start_s"], 990, "running[0].start_s: 990 lies before submit_s 991", "one of the two"),
        (["running", 0, "expected_end_s"], 995, "running[0].expected_end_s: 995 is no later", "one of the two"),
        (["queued", 1, "size"], 5, "queued[1].size: 5 units are more than the machine's 4", "never run"),
        (["queued", 0, "size"], True, "queued[0].size: True is no whole number", "quotes"),
        (["queued", 0, "submit_s"], 1001, "queued[0].submit_s: 1001 lies after now_s 1000", "future"),
        (["queued", 0, "node_power_w"], -1, "queued[0].node_power_w: -1 is too small", "at least 0"),
        (["queued", 0, "node_power_w"], "1kW", "queued[0].node_power_w: '1kW' is no whole number", "quotes"),
        (["peaks"], 7, "peaks: is no list", "[]"),
        (["peaks"], [{"from_s": 5}], "peaks[0].peak: is missing", "peak"),
        (["peaks"], [{"from_s": 5, "peak": "high"}], "peaks[0].peak: 'high' is unknown", "on-peak"),
        (["peaks"], [{"at": 5, "peak": "on-peak"}], "peaks[0].at: is no key", "from_s"),
        (["peaks"], [{"from_s": 5, "peak": "on-peak"}] * 2, "peaks[1].from_s: 5 is no later", "sort"),
        (["queued", 0, "estimate_s"], -1, "queued[0].estimate_s: -1 is too small", "at least 0"),
    ],
)
def test_error_in_a_snapshot_file_names_its_key_and_a_hint(tmp_path, path, value, message, hint):
    document = json.loads(snapshot_json(EXAMPLE))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    error = error_of(tmp_path, json.dumps(document))
    assert str(error).startswith(f"{tmp_path / 'state.json'}: ")
    assert message in str(error)
    assert hint in error.hint


@pytest.mark.parametrize("key", ["version", "now_s", "units_per_node", "wake_s", "nodes", "running", "queued"])
def test_a_missing_key_is_named(tmp_path, key):
    document = json.loads(snapshot_json(EXAMPLE))
    document[key.upper()] = document.pop(key)
    error = error_of(tmp_path, json.dumps(document))
    assert f"{key}: is missing" in str(error) or "is no key" in str(error)
    assert key in error.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is no object"),
        ('{"version": 1,\n"now_s" 5}', ":2: no JSON: Expecting ':' delimiter"),
        ("[" * 100_000, "is no state file"),
        ('{"version": ' + "9" * 5000 + "}", "is no state file"),
        ("", ":1: no JSON"),
    ],
)
def test_file_that_is_no_snapshot_is_reported(tmp_path, text, message):
    assert message in str(error_of(tmp_path, text))


def test_a_file_that_is_not_there_and_one_in_another_encoding(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_snapshot(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"version": "\xe9"}')
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_snapshot(tmp_path / "latin.json")


def test_a_folder_that_is_not_there_cannot_be_written_to(tmp_path):
    with pytest.raises(CannotWrite):
        write_snapshot(EXAMPLE, tmp_path / "none" / "state.json")


KEYS = st.sampled_from(["version", "now_s", "units_per_node", "wake_s", "nodes", "running", "queued", "size"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(st.dictionaries(KEYS, ANY_JSON))
def test_any_json_file_is_a_snapshot_or_an_offpeak_error(tmp_path_factory, document):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps({"version": 1, "now_s": 1, "units_per_node": 1, "wake_s": {"powersave": 1}} | document))
    with pytest.raises(BadInput):
        read_snapshot(path)


def error_of(folder, text) -> BadInput:
    """Return the error that reading a file with this text gives."""
    (folder / "state.json").write_text(text)
    with pytest.raises(BadInput) as caught:
        read_snapshot(folder / "state.json")
    return caught.value
