// The node grid: a square a node, by its state; pointing at one, or moving there by keys, says all of it.
import { ago, clock, counted, element, power, say } from "./text.js";

const KINDS = ["busy", "on", "booting", "going down", "standby", "off", "unknown"];
const NAMES = { on: "idle" };
const grid = document.getElementById("grid");
const told = document.getElementById("node");
let nodes = [], chosen = -1, nowS = 0;

export function nodeRows({ fields, rows }) {
  return rows.map((row) => Object.fromEntries(fields.map((field, at) => [field, row[at]])));
}

function kind(node) {
  if (!KINDS.includes(node.state)) return "unknown";
  return node.state === "on" && node.word === "busy" ? "busy" : node.state;
}

export function showNodes(now, atS) {
  nodes = now;
  nowS = atS;
  while (grid.children.length > nodes.length) grid.lastChild.remove();
  while (grid.children.length < nodes.length) {
    grid.append(element("div", { className: "node", role: "option", id: `node-${grid.children.length}` }));
  }
  const size = nodes.length <= 100 ? 28 : nodes.length <= 250 ? 22 : nodes.length <= 500 ? 17 : 13;
  grid.style.setProperty("--size", `${size}px`);
  nodes.forEach((node, at) => {
    const cell = grid.children[at], is = kind(node);
    if (cell.dataset.kind !== is) cell.dataset.kind = is;
    cell.toggleAttribute("data-held", node.held);
    const label = `${node.node}: ${NAMES[is] ?? is}`;
    if (cell.ariaLabel !== label) cell.ariaLabel = label;
  });
  showLegend();
  say(document.getElementById("nodes-count"), nodes.length ? counted(nodes.length, "node") : "none may be switched: see nodes below [agent]");
  if (chosen >= nodes.length) chosen = -1;
  if (chosen >= 0) tell(chosen);
}

function showLegend() {
  const counts = new Map();
  for (const node of nodes) counts.set(kind(node), (counts.get(kind(node)) ?? 0) + 1);
  const keys = KINDS.filter((each) => counts.has(each)).map((each) => {
    const swatch = element("i", { className: "node" });
    swatch.dataset.kind = each;
    return element("li", {}, swatch, `${counts.get(each)} ${NAMES[each] ?? each}`);
  });
  document.querySelector("#nodes .legend").replaceChildren(...keys);
}

function tell(at) {
  const node = nodes[at], is = kind(node);
  const [value, unit] = power(node.watts);
  const drawn = node.watts === null ? "draw not known" : `${value} ${unit}${node.measured ? "" : " modelled"}`;
  const since = node.since_unix_s ? ` for ${ago(nowS - node.since_unix_s)}, since ${clock(node.since_unix_s, nowS)}, by ${node.by}` : "";
  const wanted = node.desired && node.desired !== node.state ? ` · wanted: ${node.desired.replaceAll("_", " ")}` : "";
  const lines = [element("b", {}, node.node), ` ${NAMES[is] ?? is}${since}${wanted} · ${drawn}`];
  told.replaceChildren(...lines, element("br"), node.why || "");
}

function choose(at) {
  if (!nodes.length) return;
  const next = Math.min(nodes.length - 1, Math.max(0, at));
  if (chosen >= 0) grid.children[chosen]?.removeAttribute("aria-selected");
  chosen = next;
  grid.children[chosen].setAttribute("aria-selected", "true");
  grid.setAttribute("aria-activedescendant", grid.children[chosen].id);
  grid.children[chosen].scrollIntoView({ block: "nearest" });
  tell(chosen);
}

function perRow() {
  return getComputedStyle(grid).gridTemplateColumns.split(" ").length;
}

for (const event of ["mouseover", "click"]) {
  grid.addEventListener(event, ({ target }) => {
    if (target !== grid) choose([...grid.children].indexOf(target));
  });
}

grid.addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow(), ArrowUp: -perRow(), Home: -nodes.length, End: nodes.length };
  if (!(event.key in steps)) return;
  event.preventDefault();
  choose(chosen < 0 ? 0 : chosen + steps[event.key]);
});
grid.addEventListener("focus", () => chosen < 0 && choose(0));
