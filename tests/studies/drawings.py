"""The series in the SVG text of a figure, by their ids, such as "panel-1-greedy"."""

from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def drawn_groups(svg: str) -> dict[str, ElementTree.Element]:
    """Return the groups that have the id of a series or a panel."""
    groups = {group.attrib.get("id", ""): group for group in ElementTree.fromstring(svg).iter(f"{SVG}g")}
    return {name: group for name, group in groups.items() if name.startswith("panel-")}


def drawn_marks(svg: str) -> dict[str, int]:
    """Return the number of marks of each series that has marks."""
    counts = {name: len(list(group.iter(f"{SVG}use"))) for name, group in _series(svg).items()}
    return {name: count for name, count in counts.items() if count}


def drawn_lines(svg: str) -> set[str]:
    """Return the ids of the series that are drawn as a line."""
    return {name for name, group in _series(svg).items() if group.find(f"{SVG}path") is not None}


def _series(svg: str) -> dict[str, ElementTree.Element]:
    return {name: group for name, group in drawn_groups(svg).items() if not name.removeprefix("panel-").isdigit()}
