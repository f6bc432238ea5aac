"""Finds text on a page that overlaps other text, or that sticks out of what holds it."""

from playwright.sync_api import Page

FIND = """
(holders) => {
  const words = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    const text = node.textContent.trim().slice(0, 40);
    if (!text || !parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"].includes(parent.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, right, top, bottom } of range.getClientRects()) {
      const box = { left, right, top, bottom };
      let clipped = false;
      for (let up = parent; up; up = up.parentElement) {
        const style = getComputedStyle(up), seen = up.getBoundingClientRect();
        if (style.overflowY === "visible" || up === document.body) continue;
        clipped ||= box.right > seen.right + 1 && style.overflowX !== "auto";
        box.top = Math.max(box.top, seen.top);
        box.bottom = Math.min(box.bottom, seen.bottom);
        box.left = Math.max(box.left, seen.left);
        box.right = Math.min(box.right, seen.right);
      }
      if (box.right - box.left > 1 && box.bottom - box.top > 1) words.push({ ...box, clipped, node, text });
    }
  }
  const found = [];
  for (const [at, one] of words.entries()) {
    const holder = one.node.parentElement.closest(holders)?.getBoundingClientRect();
    const isOut = holder && (one.left < holder.left - 1 || one.right > holder.right + 1);
    if (one.clipped || isOut) found.push(`${one.text}: sticks out`);
    for (const other of words.slice(at + 1)) {
      if (other.node === one.node) continue;
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > 1 && high > 3) found.push(`${one.text} | ${other.text}`);
    }
  }
  return found;
}
"""


def text_overlaps(page: Page, holders: str) -> list[str]:
    """Return "one | other" for texts that overlap, "text: sticks out" of its holder; `holders` selects those."""
    found: list[str] = page.evaluate(FIND, holders)
    return found
