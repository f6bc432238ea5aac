"""Files of node classes: the bundled ones, and errors in a site's own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.node_class import DepthPower, EnclosurePower, NodeClass, Transition, break_even_s
from offpeak.model.node_class_file import bundled_node_class, bundled_node_classes, node_class_named, read_node_class
from offpeak.model.node_states import OFF, POWERSAVE, STANDBY

pytestmark = pytest.mark.quick

GOOD = """\
idle = "150W"
running = [[0, "150W"], [1.0, "0.3kW"]]
[standby]
power = "30W"
enter = { duration = "15s", power = "150W", failure_probability = 0 }
leave = { duration = "30s", power = "160W", failure_probability = 0.01 }
[off]
power = "10W"
enter = { duration = "1min", power = "150W", failure_probability = 0 }
[off.leave]
duration = "3min"
power = "200W"
failure_probability = 0.02
"""
WAKE = 'leave = { duration = "30s", power = "160W", failure_probability = 0.01 }'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ours.toml"


def refused(file: Path, text: str) -> BadInput:
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_node_class(file)
    return caught.value


def test_a_file_becomes_a_class(file: Path) -> None:
    file.write_text(GOOD)
    standby = DepthPower(STANDBY, 30, Transition(15, 150, 0), Transition(30, 160, 0.01))
    off = DepthPower(OFF, 10, Transition(60, 150, 0), Transition(180, 200, 0.02))
    assert read_node_class(file) == NodeClass("ours", 150, ((0, 150), (1, 300)), (standby, off))


def test_depths_are_shallow_to_deep_however_they_are_written(file: Path) -> None:
    standby, off = GOOD.index("[standby]"), GOOD.index("[off]")
    file.write_text(GOOD[:standby] + GOOD[off:] + GOOD[standby:off])
    assert [depth.depth for depth in read_node_class(file).depths] == [STANDBY, OFF]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[standby]", "[standbye]", "standbye: is not a key of a node class"),
        ("leave = {", "leavs = {", "standby.leavs: is not a key of a node class"),
        ('idle = "150W"\n', "", "idle is missing"),
        (WAKE, "", "standby: leave is missing"),
        ('duration = "3min"\n', "", "off.leave: duration is missing"),
        (WAKE, 'leave = "30s"', "standby.leave: is not a table"),
        ('"150W"\n', "150\n", "idle: 150 is not text"),
        ('"30W"', '"30"', "standby.power: '30' has no unit"),
        ('"30W"', '"-30W"', "standby.power: '-30W' is negative"),
        ('"30W"', '"151W"', "standby: 151W is more than the 150W of idle"),
        ('"10W"', '"31W"', "off: 31W is more than the 30W of standby"),
        ('"3min"', '"0s"', "off.leave.duration: '0s' is not from 1s to 1d"),
        ('"3min"', '"-1s"', "off.leave.duration: '-1s' is negative"),
        ('"3min"', '"3d"', "off.leave.duration: '3d' is not from 1s to 1d"),
        ('"3min"', '"3m"', "off.leave.duration: unknown unit 'm'"),
        ("0.02", "1.5", "off.leave.failure_probability: 1.5 is out of range"),
        ("0.02", "nan", "off.leave.failure_probability: nan is not a number"),
        ("0.02", "true", "off.leave.failure_probability: True is not a number"),
        ("0.02", '"2%"', "off.leave.failure_probability: '2%' is not a number"),
        ('[[0, "150W"], [1.0, "0.3kW"]]', '"300W"', "running: '300W' is not a list"),
        ('[[0, "150W"], [1.0, "0.3kW"]]', "[]", "running: does not begin with utilisation 0 at the idle 150W"),
        ('[[0, "150W"]', '[[0, "140W"]', "running: does not begin with utilisation 0 at the idle 150W"),
        ('[[0, "150W"]', '[[0.1, "150W"]', "running: does not begin with utilisation 0 at the idle 150W"),
        ('[1.0, "0.3kW"]', "1.0", "running[2]: 1.0 is not a point"),
        ('[1.0, "0.3kW"]', "", "running: does not end with utilisation 1"),
        ("[1.0,", "[2,", "running[2][1]: 2 is out of range"),
        ("0.3kW", "0.1kW", "running: 100W at 1 comes after 150W at 0"),
        ("[1.0,", '[0.5, "0.3kW"], [0.5, "0.3kW"], [1.0,', "running: 300W at 0.5 comes after 300W at 0.5"),
        ('idle = "150W"', "idle = ", "is not TOML: Invalid value (at line 1, column 8)"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key(file: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    error = refused(file, GOOD.replace(old, new, 1))
    assert str(error) == f"{file}: {message}"
    assert error.hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("[standby]", "[standbye]", "did you mean standby?"),
        (WAKE, "", 'add leave = { duration = "180s", power = "200W", failure_probability = 0.0 }'),
        ("[standby]", "[[standby]]", "write [standby], and below it power, enter, leave"),
        ('"150W"\n', "150\n", 'write it in quotes: idle = "150W"'),
        ('"30W"', '"30"', "write it like 250W or 1.2kW"),
        ('"10W"', '"31W"', "a deeper sleep never draws more; check both figures"),
        ('"3min"', '"0s"', "write what you measured, such as 180s"),
        ("0.02", "1.5", "the range is 0 to 1"),
        ('[[0, "150W"]', '[[0, "140W"]', 'write it like [[0.0, "150W"], [1.0, "300W"]]'),
        ("0.3kW", "0.1kW", "order the points by utilisation; more use never draws less"),
        ('idle = "150W"', "idle = ", 'the file is TOML: text stands in quotes, as in idle = "150W"'),
    ],
)
def test_what_to_write_instead(file: Path, old: str, new: str, hint: str) -> None:
    assert refused(file, GOOD.replace(old, new, 1)).hint == hint


def test_a_wake_that_always_fails_is_never_repaired(file: Path) -> None:
    always = GOOD.replace("failure_probability = 0.02", "failure_probability = 1")
    assert "repair: goes with a wake that always fails" in str(refused(file, 'repair = "1h"\n' + always))
    file.write_text(always)
    assert read_node_class(file).repair_s is None


ENCLOSURE = 'enclosure = { nodes = 12, overhead = "240W" }\n'


def test_an_enclosure_is_optional(file: Path) -> None:
    file.write_text(ENCLOSURE + GOOD)
    assert read_node_class(file).enclosure == EnclosurePower(12, 240)
    assert all(bundled_node_class(name).enclosure is None for name in bundled_node_classes())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("12", "1", "enclosure.nodes: 1 is out of range"),
        ("12", "true", "enclosure.nodes: True is not a whole number"),
        ("12", "'12'", "enclosure.nodes: '12' is not a whole number"),
        ("nodes = 12, ", "", "enclosure: nodes is missing"),
        ("240W", "240", "enclosure.overhead: "),
        ("240W", "1440W", "enclosure.overhead: 120W for each node is not less than the 120W that sleep saves with it"),
    ],
)
def test_a_wrong_enclosure_is_refused(file: Path, old: str, new: str, message: str) -> None:
    assert message in str(refused(file, ENCLOSURE.replace(old, new) + GOOD))


def test_a_file_that_is_not_text(file: Path) -> None:
    file.write_bytes(b"idle = '\xff'\n")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_node_class(file)


@given(st.integers(1, 86_400), st.integers(0, 150), st.floats(0, 1))
def test_figures_are_kept(
    tmp_path_factory: pytest.TempPathFactory, duration_s: int, power_w: int, failure_probability: float
) -> None:
    file = tmp_path_factory.mktemp("site") / "ours.toml"
    way = f'{{ duration = "{duration_s}s", power = "{power_w}W", failure_probability = {failure_probability!r} }}'
    file.write_text(f"{GOOD[: GOOD.index('[standby]')]}[off]\npower = '{power_w}W'\nenter = {way}\nleave = {way}\n")
    transition = Transition(duration_s, power_w, failure_probability)
    assert read_node_class(file).depths == (DepthPower(OFF, power_w, transition, transition),)


@pytest.mark.parametrize("name", bundled_node_classes())
def test_a_bundled_class_is_sound(name: str) -> None:
    made = bundled_node_class(name)
    assert made.name == name
    assert made.depths
    assert all(0 < break_even_s(made, depth.depth) < 3600 for depth in made.depths)


def test_the_bundled_classes() -> None:
    assert bundled_node_classes() == ("dune", "jufit", "juggle", "server", "sketch")


def test_juggle_saves_what_was_measured() -> None:
    """Table VIII of the paper at 0 % load."""
    juggle = bundled_node_class("juggle")
    saved = {depth.depth: 1 - depth.power_w / juggle.idle_w for depth in juggle.depths}
    assert saved == {POWERSAVE: pytest.approx(0.286, abs=5e-4), STANDBY: pytest.approx(0.337, abs=5e-4)}
    assert 12 * juggle.idle_w == pytest.approx(1960, abs=0.1)


def test_dune_saves_about_what_was_measured() -> None:
    """Table VII of the paper at 0 % load: 93.3 % of 517.8 s in which the nodes go down first."""
    dune = bundled_node_class("dune")
    (off,) = dune.depths
    energy_j = off.enter.energy_j + (517.8 - off.enter.duration_s) * off.power_w
    assert 1 - energy_j / (517.8 * dune.idle_w) == pytest.approx(0.933, abs=5e-3)


def test_a_name_is_a_bundled_class_or_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(GOOD)
    assert node_class_named("sketch") == bundled_node_class("sketch")
    assert node_class_named(str(file)) == read_node_class(file)
    monkeypatch.chdir(file.parent)
    file.rename(file.with_name("plain"))
    assert node_class_named("plain").name == "plain"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("jugle", "'jugle' is not a node class", "did you mean juggle?; or name a TOML file"),
        ("absent.toml", "absent.toml: no such file", "`ls .` shows what is there"),
    ],
)
def test_what_is_neither_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        node_class_named(text)
    assert (str(caught.value), caught.value.hint) == (message, hint)
