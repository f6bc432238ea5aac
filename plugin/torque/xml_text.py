"""Torque's XML, in which a single user's environment can make the whole document ill-formed."""

from xml.etree import ElementTree

from plugin.pbs.ask import CannotAskPbs

# What XML 1.0 does not have, though Torque prints it as users wrote it.
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r")
_NO_CHARACTERS = str.maketrans("", "", "\ufffe\uffff")


def records(answer: bytes, tag: str, *, source: str) -> list[ElementTree.Element]:
    """Return the elements of that name below the root, [] for no answer; CannotAskPbs where it is no XML."""
    plain = answer.translate(None, _CONTROLS).decode(errors="replace").translate(_NO_CHARACTERS).strip()
    if not plain:
        return []
    try:
        return ElementTree.fromstring(plain).findall(tag)
    except ElementTree.ParseError as problem:
        raise CannotAskPbs(f"{source}: its answer is no XML: {problem}", hint=f"run `{source}` by hand") from None


def fields(element: ElementTree.Element) -> dict[str, str]:
    """Return the texts of an element's children by their names."""
    return {child.tag: child.text or "" for child in element}
