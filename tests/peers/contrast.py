"""The contrast of the texts of a page by WCAG 2.2."""

import re

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

ENOUGH = 4.5

# The colour of each text and those that lie behind it, half transparent ones before the first that is not.
TEXT_COLOURS = """(selector) => {
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const shown = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 0;
  return [...document.querySelectorAll(selector)].filter((each) => own(each) && shown(each)).map((element) => {
    const style = getComputedStyle(element), behind = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!colour.endsWith(", 0)")) behind.push(colour);
      if (!colour.startsWith("rgba")) break;
    }
    return [element.namespaceURI.endsWith("svg") ? style.fill : style.color, behind, element.textContent.slice(0, 60)];
  });
}"""


def low_contrasts(page: Page, selector: str) -> list[tuple[str, float]]:
    """Return the texts with a contrast below 4.5 to 1, with the ratio."""
    found = [(text, contrast(colour, behind)) for colour, behind, text in page.evaluate(TEXT_COLOURS, selector)]
    assert found
    return [(text, ratio) for text, ratio in found if ratio < ENOUGH]


def contrast(colour: str, behind: list[str]) -> float:
    """Return the contrast ratio of a colour to its backgrounds, nearest first."""
    ground = np.ones(3)
    for each in reversed(behind):
        ground = _over(each, ground)
    light, dark = sorted((_luminance(_over(colour, ground)), _luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _over(colour: str, ground: NDArray[np.float64]) -> NDArray[np.float64]:
    red, green, blue, *opacity = (float(each) for each in re.findall(r"[\d.]+", colour))
    share = opacity[0] if opacity else 1.0
    return share * np.array([red, green, blue]) / 255 + (1 - share) * ground


def _luminance(channels: NDArray[np.float64]) -> float:
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
