"""Records docs/images/demo.webp: the status page during `offpeak demo`, with the lines that the demo prints below it.

Run by `make reference`.
"""

import io
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path("docs", "images", "demo.webp")
LISTEN, HARDWARE_PORT = "127.0.0.71", 6271
SECONDS, FRAMES = 150.0, 36
DAY_S = 36_000
"""The clock is slower than usual: beside the demo a browser and its pictures need the processor."""
SIZE = {"width": 1040, "height": 1000}
SHOWN_MS, LAST_MS = 1300, 6000
QUALITY = 55
PATIENCE_S = 300.0

# Arranges the cards for a picture of this size, and adds a caption. The page forbids style sheets of others.
ARRANGE = """() => {
  document.querySelector("#range button[value=day]").click();
  const style = (selector, values) => {
    for (const each of document.querySelectorAll(selector)) Object.assign(each.style, values);
  };
  const areas = [[["saved", 5], ["ahead", 7]], [["tiles", 12]], [["nodes", 4], ["queue", 8]]];
  const rows = areas.map((row) => row.map(([name, columns]) => `${name} `.repeat(columns)).join(""));
  style("main", { gridTemplateAreas: rows.map((row) => `"${row}"`).join(" "), gridTemplateRows: "460px auto 290px" });
  style("#events, #errors, #types, #partitions, #trouble, #node, .search", { display: "none" });
  style("#queue, #nodes", { overflow: "hidden", maxHeight: "290px" });
  style("#grid", { zoom: "1.4", maxHeight: "none", flex: "none" });
  style(".plot", { minHeight: "10rem" });
  const caption = document.createElement("pre");
  caption.id = "caption";
  document.body.append(caption);
  style("#caption", { position: "fixed", left: "0", right: "0", bottom: "0", height: "86px", margin: "0" });
  style("#caption", { padding: "14px 20px", background: "#1a1f25", color: "#ffffff", whiteSpace: "pre-wrap" });
  style("#caption", { font: "600 19px/1.5 system-ui, sans-serif" });
}"""


def main() -> None:
    """Run the demo and record it."""
    with socket.create_server((LISTEN, 0)) as free:
        place = f"{LISTEN}:{free.getsockname()[1]}"
    offpeak = Path(sys.executable).with_name("offpeak")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        length = ("--seconds", str(SECONDS), "--clock-factor", str(DAY_S / SECONDS))
        command = (offpeak, "demo", "--listen", place, "--hardware-port", str(HARDWARE_PORT), *length)
        demo = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        lines: list[str] = []
        reading = threading.Thread(target=read, args=(demo, lines))
        reading.start()
        # Chromium refuses to put its pages into a sandbox when root starts it.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        try:
            frames = record(browser.new_page(viewport=SIZE, color_scheme="light"), place, lines)
        finally:
            browser.close()
            demo.terminate()
            demo.wait()
            reading.join()
    durations = [SHOWN_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(
        PICTURE, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=QUALITY, method=6
    )


def read(demo: "subprocess.Popen[str]", lines: list[str]) -> None:
    """Keep what the demo prints."""
    for line in demo.stdout or ():
        lines.append(line.rstrip())


def record(page: Page, place: str, lines: list[str]) -> list[Image.Image]:
    """Return pictures of the page in equal steps, from the first line of the day to the last."""
    until = time.monotonic() + PATIENCE_S
    while not steps(lines) and time.monotonic() < until:
        time.sleep(0.1)
    page.goto(f"http://{place}/")
    page.wait_for_selector("html[data-status][data-nodes][data-power]", state="attached")
    page.evaluate(ARRANGE)
    began, frames, shown = time.monotonic(), [], 0
    for number in range(FRAMES):
        page.wait_for_timeout(max(0.0, began + number * SECONDS / FRAMES - time.monotonic()) * 1000)
        frames.append(frame(page, caption(lines, shown)))
        shown = len(lines)
    while not (saved := [line for line in lines if line.startswith("saved: ")]) and time.monotonic() < until:
        page.wait_for_timeout(50)
    return [*frames, frame(page, saved[-1])]


def frame(page: Page, text: str) -> Image.Image:
    """Return the page with this caption."""
    page.evaluate("(text) => { document.getElementById('caption').textContent = text; }", text)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def steps(lines: Sequence[str]) -> list[int]:
    """Return where a step of the day begins among the lines: with its time."""
    return [at for at, line in enumerate(lines) if line[:2].isdecimal() and line[2:3] == ":"]


def caption(lines: Sequence[str], shown: int) -> str:
    """Return a step with its reason: the last one, or one about prices or the queue if that is new since `shown`."""
    rare = [at for at in steps(lines) if at >= shown and not re.search("asleep:|awake:|nodes sleep", lines[at])]
    at = (rare or steps(lines))[-1]
    return "\n".join(line.strip() for line in lines[at : at + 2] if line == lines[at] or line.startswith("    "))


if __name__ == "__main__":
    main()
