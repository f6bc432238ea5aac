"""Reads the sites of a federation: the TOML file that describes each cluster and the links between them."""

import tomllib
from importlib.resources import files
from pathlib import Path

from offpeak.errors import BadSites
from offpeak.files import read_bytes
from offpeak.machines.toml_tables import check_shape
from offpeak.text import did_you_mean
from plugin.federation.grid import MOST_FEATURES, Grid
from plugin.federation.site import Link, Site
from plugin.federation.site_reader import SiteReader
from plugin.federation.sites_shape import LinkTable, SitesShape

PAGE = "docs/reference/sites.md explains every key"
EXAMPLE = files("plugin.federation") / "sites.example.toml"


def read_sites(path: Path) -> Grid:
    """Return what the file says; BadSites with the file, the table, the key and a hint for what is wrong in it."""
    if not path.exists():
        raise BadSites(f"{path}: there is no file of sites", hint="docs/reference/sites.md shows how one is written")
    return grid_of(read_bytes(path, BadSites), path)


def example_sites() -> Grid:
    """Return the sites of the example that comes with offpeak."""
    return grid_of(EXAMPLE.read_bytes(), Path(EXAMPLE.name))


def grid_of(text: bytes, path: Path) -> Grid:
    """Return what a file of that path with that text says; BadSites as `read_sites`."""
    shape = check_shape(_parsed(text, path), SitesShape, file=str(path), error=BadSites, page=PAGE)
    sites = tuple(SiteReader(path, name, table).site() for name, table in shape.sites.items())
    grid = Grid(sites, tuple(_link(path, number, table, sites) for number, table in enumerate(shape.links, start=1)))
    if len(grid.features) > MOST_FEATURES:
        raise BadSites(f"{path}: {len(grid.features)} features", hint=f"{MOST_FEATURES} different ones are the most")
    return grid


def _parsed(text: bytes, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise BadSites(f"{path}: is not UTF-8 text", hint="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise BadSites(f"{path}: {problem}", hint='the file is TOML: text stands in quotes, a = "b"') from None


def _link(path: Path, number: int, table: LinkTable, sites: tuple[Site, ...]) -> Link:
    place, names = f"{path}: links[{number}].between", [site.name for site in sites]
    for end in table.between:
        if end not in names:
            raise BadSites(f"{place}: there is no [sites.{end}]", hint=did_you_mean(end, names))
    if table.between[0] == table.between[1]:
        raise BadSites(f"{place}: {table.between[0]} is there twice", hint="name two sites")
    return Link(table.between, table.latency, table.bandwidth)
