// Follows the stream of events; each section of the page is drawn when there is something new of it.
import { draw, setNow } from "./figures.js";
import { eventsOf, showEvents, showForecasts, showJobs } from "./lists.js";
import { isAsleep, nodeRows, showNodes } from "./nodes.js";
import { setZone } from "./text.js";
import { choose, showAge, showPower, showSaved, showStatus } from "./tiles.js";

const root = document.documentElement;
let status = null, nowS = 0, heardMs = Date.now();

const SECTIONS = {
  status(said) {
    const isMoved = said.zone && said.zone !== status?.zone;
    if (isMoved) setZone(said.zone);
    status = said;
    heardMs = Date.now();
    nowS = said.at_unix_s ?? nowS;
    showStatus(said);
    setNow(nowS);
    if (said.silent) return;
    if (isMoved) draw({ unit: said.price.unit });
    showForecasts(said.forecasts);
    showAge(status, heardMs);
  },
  prices: (said) => draw({ prices: said }),
  nodes(said) {
    const rows = nodeRows(said);
    showNodes(rows, nowS);
    showPower(rows);
    eventsOf(rows);
    return draw({ nodes: rows.filter((node) => node.state !== "unknown").length, asleep: rows.filter(isAsleep).length });
  },
  jobs(said) {
    showJobs(said, nowS);
    return draw({ jobs: said });
  },
  events: (said) => showEvents(said, nowS),
  power: (said) => draw({ power: said }),
  saved: (said) => showSaved(said),
};

const stream = new EventSource("/events");
for (const [name, show] of Object.entries(SECTIONS)) {
  stream.addEventListener(name, async ({ data }) => {
    const begunMs = performance.now();
    await show(JSON.parse(data));
    performance.measure(`offpeak ${name}`, { start: begunMs });
    root.dataset[name] = String(Number(root.dataset[name] ?? 0) + 1);
  });
}
for (const [group, key] of [["range", "range"], ["by", "by"]]) {
  document.getElementById(group).addEventListener("click", ({ target }) => target.value && choose(key, target.value));
}
stream.addEventListener("error", () => {
  const looked = document.getElementById("looked");
  looked.dataset.is = "late";
  looked.textContent = "the page's service does not answer; trying again";
});
setInterval(() => stream.readyState === EventSource.OPEN && showAge(status, heardMs), 5000);
