// The nodes by rack: a square a node, by its state; pointing at one, or moving there by keys, says all of it. Above them
// stands a row for each node type, whose button shows only the nodes of that type, and a choice of the partition.
import { clock, counted, duration, element, kilowatts, number, say } from "./text.js";

const KINDS = ["busy", "on", "booting", "going down", "standby", "off", "unknown"];
const NAMES = { on: "idle" };
const MOST_DRAWN = 1000, MOST_NAMED = 4, HUNDRED = 100;
const grid = document.getElementById("grid"), told = document.getElementById("node");
const partition = document.getElementById("partition"), types = document.querySelector("#types tbody");
const racks = document.getElementById("racks"), back = document.getElementById("racks-back");
let all = [], nodes = [], cells = [], chosen = -1, type = null, rack = null, nowS = 0, mouse = "";

export function nodeRows({ fields, rows }) {
  return rows.map((row) => Object.fromEntries(fields.map((field, at) => [field, row[at]])));
}

/** Whether offpeak lets the node sleep; what an administrator holds is no plan. */
export function isAsleep({ state, held }) {
  return !held && ["off", "standby", "going down"].includes(state);
}

function kind(node) {
  if (!KINDS.includes(node.state)) return "unknown";
  return node.state === "on" && node.word === "busy" ? "busy" : node.state;
}

function partitionsOf(some) {
  const names = new Set(some.flatMap((node) => (node.partitions ? node.partitions.split(",") : [])));
  return [...names].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}

export function showNodes(now, atS) {
  all = now;
  nowS = atS;
  show();
}

/** Shows the nodes of the chosen type and partition by rack; of very many the racks, and the nodes of a chosen one. */
function show() {
  showPartitions();
  const some = partition.value ? all.filter((node) => node.partitions.split(",").includes(partition.value)) : all;
  showTypes(some);
  const found = type === null ? some : some.filter((node) => node.node_type === type), groups = groupsOf(found);
  if (!groups.has(rack)) rack = null;
  const isLarge = found.length > MOST_DRAWN;
  showRacks(isLarge && rack === null ? groups : new Map());
  back.hidden = !isLarge || rack === null;
  grid.hidden = isLarge && rack === null;
  const drawn = !isLarge ? groups : new Map(rack === null ? [] : [[rack, groups.get(rack)]]);
  nodes = [...drawn.values()].flat();
  showGroups(drawn);
  const size = nodes.length <= 100 ? 28 : nodes.length <= 250 ? 24 : 17;
  grid.style.setProperty("--size", `${size}px`);
  nodes.forEach((node, at) => {
    const cell = cells[at], is = kind(node);
    if (cell.dataset.kind !== is) cell.dataset.kind = is;
    cell.toggleAttribute("data-held", node.held);
    const label = `${node.node}: ${NAMES[is] ?? is}${node.held ? ", held" : ""}`;
    if (cell.ariaLabel !== label) cell.ariaLabel = label;
  });
  document.querySelector("#nodes > .legend").replaceChildren(...counts(found, (count, name) => `${count} ${name}`));
  const of = found.length < all.length ? `${number(found.length)} of ` : "";
  say(document.getElementById("nodes-count"), all.length ? of + counted(all.length, "node") : "none may be switched: see nodes below [agent]");
  if (chosen >= nodes.length) chosen = -1;
  if (chosen >= 0) tell(chosen);
  else if (!grid.contains(document.activeElement)) say(told, grid.hidden ? "Choose a rack to see its nodes." : "Point at a node, or move with the arrow keys.");
}

/** The nodes by rack, by the inventory; of many nodes without racks a hundred each, in the order of their names. */
function groupsOf(some) {
  const sorted = [...some].sort((one, other) => one.node.localeCompare(other.node, "en", { numeric: true })), groups = new Map();
  const isRacked = some.some((node) => node.rack);
  sorted.forEach((node, at) => {
    const name = isRacked ? node.rack || "no rack" : some.length > MOST_DRAWN ? `${sorted[at - at % HUNDRED].node} to ${sorted[Math.min(sorted.length, at - at % HUNDRED + HUNDRED) - 1].node}` : "";
    groups.get(name)?.push(node) ?? groups.set(name, [node]);
  });
  return new Map([...groups].sort(([one], [other]) => (one === "no rack") - (other === "no rack") || one.localeCompare(other, "en", { numeric: true })));
}

/** A button for each rack: its name, its nodes, and a bar of their states. */
function showRacks(groups) {
  racks.hidden = !groups.size;
  const known = new Map([...racks.children].map((button) => [button.dataset.rack, button]));
  if ([...known.keys()].join("\n") !== [...groups.keys()].join("\n")) {
    racks.replaceChildren(...[...groups.keys()].map((name) => known.get(name) ?? rackButton(name)));
  }
  for (const button of racks.children) {
    const some = groups.get(button.dataset.rack), by = kindCounts(some), awake = some.length - (by.get("off") ?? 0) - (by.get("standby") ?? 0);
    say(button.querySelector("small"), `${awake} of ${some.length} awake`);
    button.querySelector(".states").replaceChildren(...[...by].map(([each, count]) => {
      const part = element("i", { className: "node", title: `${number(count)} ${NAMES[each] ?? each}` });
      part.dataset.kind = each;
      part.style.flexGrow = count;
      return part;
    }));
  }
}

function rackButton(name) {
  const button = element("button", { type: "button", className: "rack-button" }, element("span", {}, name), element("small"), element("span", { className: "states" }));
  button.dataset.rack = name;
  button.addEventListener("click", () => {
    choose(() => { rack = name; });
    back.focus();
  });
  return button;
}

/** Makes the cells of the racks; those of racks that have as many nodes as before stay. */
function showGroups(groups) {
  const shape = [...groups].map(([name, some]) => `${name}\t${some.length}`).join("\n");
  if (grid.dataset.shape === shape) return;
  grid.dataset.shape = shape;
  grid.style.setProperty("--columns", Math.min(16, Math.max(...[...groups.values()].map((some) => some.length))));
  cells = [];
  grid.replaceChildren(...[...groups].map(([name, some]) => {
    const box = element("div", { className: "cells" }, ...some.map(() => {
      cells.push(element("div", { className: "node", role: "option", id: `node-${cells.length}`, ariaSelected: "false" }));
      return cells.at(-1);
    }));
    return name ? element("div", { className: "rack", role: "group", ariaLabel: name }, element("span", { className: "rack-name", ariaHidden: "true" }, name), box) : box;
  }));
}

function kindCounts(some) {
  const by = new Map();
  for (const node of some) by.set(kind(node), (by.get(kind(node)) ?? 0) + 1);
  return new Map(KINDS.filter((each) => by.has(each)).map((each) => [each, by.get(each)]));
}

/** A swatch and a text for each state that nodes have. */
function counts(some, text) {
  return [...kindCounts(some)].map(([each, count]) => {
    const swatch = element("i", { className: "node", title: NAMES[each] ?? each });
    swatch.dataset.kind = each;
    return element("li", {}, swatch, text(number(count), NAMES[each] ?? each));
  });
}

function showPartitions() {
  const names = partitionsOf(all), known = [...partition.options].slice(1).map((option) => option.value);
  partition.parentElement.hidden = names.length < 2;
  if (known.join() === names.join()) return;
  const before = partition.value;
  partition.replaceChildren(...["", ...names].map((value) => element("option", { value }, value || `all ${names.length}`)));
  partition.value = names.includes(before) ? before : "";
}

function showTypes(some) {
  const byType = new Map();
  for (const node of some) byType.get(node.node_type)?.push(node) ?? byType.set(node.node_type, [node]);
  const names = [...byType.keys()].sort((one, other) => byType.get(other).length - byType.get(one).length || one.localeCompare(other));
  types.closest("#types").hidden = names.length < 2 && type === null;
  if (!byType.has(type)) type = null;
  // Rows stay where they are, so that a button keeps the focus.
  const rows = new Map([...types.children].map((row) => [row.dataset.type, row]));
  if ([...rows.keys()].join("\n") !== names.join("\n")) types.replaceChildren(...names.map((name) => rows.get(name) ?? typeRow(name)));
  for (const row of types.children) {
    const of = byType.get(row.dataset.type), inside = partitionsOf(of);
    const rest = inside.length > MOST_NAMED ? ` and ${inside.length - MOST_NAMED} more` : "";
    row.querySelector("button").ariaPressed = String(type === row.dataset.type);
    say(row.querySelector("small"), inside.slice(0, MOST_NAMED).join(", ") + rest);
    say(row.querySelector(".number"), number(of.length));
    row.querySelector("ul").replaceChildren(...counts(of, (count) => count));
  }
}

function typeRow(name) {
  const button = element("button", { type: "button" }, name || "unknown type");
  button.addEventListener("click", () => choose(() => { type = type === name ? null : name; }));
  const row = element("tr", {}, element("td", {}, button, element("small")), element("td", { className: "number" }),
    element("td", {}, element("ul", { className: "legend" })));
  row.dataset.type = name;
  return row;
}

/** Changes which nodes are shown. */
function choose(change) {
  select(-1);
  change();
  show();
}

function tell(at) {
  const node = nodes[at], is = kind(node);
  const drawn = node.watts === null ? "power not known" : `${kilowatts(node.watts)}${node.measured ? "" : " modelled"}`;
  const since = node.since_unix_s ? ` for ${duration(nowS - node.since_unix_s)}, since ${clock(node.since_unix_s, nowS)}, by ${node.by}` : "";
  const wanted = node.desired && node.desired !== node.state ? ` · wanted: ${node.desired.replaceAll("_", " ")}` : "";
  const lines = [element("b", {}, node.node), ` ${NAMES[is] ?? is}${since}${wanted} · ${drawn}`];
  const place = [node.rack, node.node_type, node.partitions?.replaceAll(",", ", ")].filter(Boolean).join(" · ");
  told.replaceChildren(...lines, element("br"), ...(place ? [place, element("br")] : []), node.why || "");
}

function select(at) {
  cells[chosen]?.setAttribute("aria-selected", "false");
  chosen = Math.min(nodes.length - 1, at);
  if (chosen < 0) return grid.removeAttribute("aria-activedescendant");
  cells[chosen].setAttribute("aria-selected", "true");
  grid.setAttribute("aria-activedescendant", cells[chosen].id);
  cells[chosen].scrollIntoView({ block: "nearest" });
  tell(chosen);
}

/** The node in the nearest line above or below, the nearest one sideways. */
function besides(at, step) {
  const from = cells[at].getBoundingClientRect(), boxes = cells.map((cell) => cell.getBoundingClientRect());
  const beyond = boxes.filter((box) => step * (box.top - from.top) > 1).map((box) => box.top);
  if (!beyond.length) return at;
  const top = step > 0 ? Math.min(...beyond) : Math.max(...beyond);
  const line = [...boxes.keys()].filter((each) => Math.abs(boxes[each].top - top) < 1);
  return line.reduce((best, each) => (Math.abs(boxes[each].left - from.left) < Math.abs(boxes[best].left - from.left) ? each : best), line[0]);
}

for (const event of ["mouseover", "click"]) {
  grid.addEventListener(event, ({ type, target, clientX, clientY }) => {
    // The browser also sends mouseover where the page moves below a mouse that rests.
    const place = `${clientX} ${clientY}`, rests = type === "mouseover" && place === mouse;
    mouse = place;
    if (target.role === "option" && !rests) select(cells.indexOf(target));
  });
}

grid.addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -nodes.length, End: nodes.length }, lines = { ArrowDown: 1, ArrowUp: -1 };
  if (!nodes.length || !(event.key in steps || event.key in lines)) return;
  event.preventDefault();
  if (chosen < 0) select(0);
  else select(event.key in lines ? besides(chosen, lines[event.key]) : Math.max(0, chosen + steps[event.key]));
});
back.addEventListener("click", () => {
  const before = rack;
  choose(() => { rack = null; });
  racks.querySelector(`[data-rack="${CSS.escape(before)}"]`)?.focus();
});
grid.addEventListener("focus", () => chosen < 0 && nodes.length && select(0));
partition.addEventListener("change", () => choose(() => {}));
