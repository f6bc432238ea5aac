// The node grid: a square a node, by its state; pointing at one, or moving there by keys, says all of it. Above it stands
// a row for each node type, whose button shows only the nodes of that type, and a choice of the partition.
import { ago, clock, counted, element, number, power, say } from "./text.js";

const KINDS = ["busy", "on", "booting", "going down", "standby", "off", "unknown"];
const NAMES = { on: "idle" };
const MOST_DRAWN = 2000, MOST_NAMED = 4;
const grid = document.getElementById("grid"), told = document.getElementById("node");
const partition = document.getElementById("partition"), types = document.querySelector("#types tbody");
let all = [], nodes = [], chosen = -1, type = null, nowS = 0;

export function nodeRows({ fields, rows }) {
  return rows.map((row) => Object.fromEntries(fields.map((field, at) => [field, row[at]])));
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

/** Shows the nodes of the chosen type and partition; of very many the first ones. */
function show() {
  showPartitions();
  const some = partition.value ? all.filter((node) => node.partitions.split(",").includes(partition.value)) : all;
  showTypes(some);
  const found = type === null ? some : some.filter((node) => node.node_type === type);
  nodes = found.slice(0, MOST_DRAWN);
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
  document.querySelector("#nodes > .legend").replaceChildren(...counts(found, (count, name) => `${count} ${name}`));
  const of = found.length < all.length ? `${number(found.length)} of ` : "";
  say(document.getElementById("nodes-count"), all.length ? of + counted(all.length, "node") : "none may be switched: see nodes below [agent]");
  const left = found.length - nodes.length;
  say(document.getElementById("nodes-more"), left ? `${counted(left, "more node")}: choose a type or a partition` : "");
  if (chosen >= nodes.length) chosen = -1;
  if (chosen >= 0) tell(chosen);
}

/** A swatch and a text for each state that nodes have. */
function counts(some, text) {
  const by = new Map();
  for (const node of some) by.set(kind(node), (by.get(kind(node)) ?? 0) + 1);
  return KINDS.filter((each) => by.has(each)).map((each) => {
    const swatch = element("i", { className: "node", title: NAMES[each] ?? each });
    swatch.dataset.kind = each;
    return element("li", {}, swatch, text(number(by.get(each)), NAMES[each] ?? each));
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
  const [value, unit] = power(node.watts);
  const drawn = node.watts === null ? "draw not known" : `${value} ${unit}${node.measured ? "" : " modelled"}`;
  const since = node.since_unix_s ? ` for ${ago(nowS - node.since_unix_s)}, since ${clock(node.since_unix_s, nowS)}, by ${node.by}` : "";
  const wanted = node.desired && node.desired !== node.state ? ` · wanted: ${node.desired.replaceAll("_", " ")}` : "";
  const lines = [element("b", {}, node.node), ` ${NAMES[is] ?? is}${since}${wanted} · ${drawn}`];
  const place = [node.node_type, node.partitions?.replaceAll(",", ", ")].filter(Boolean).join(" · ");
  told.replaceChildren(...lines, element("br"), ...(place ? [place, element("br")] : []), node.why || "");
}

function select(at) {
  grid.children[chosen]?.removeAttribute("aria-selected");
  chosen = Math.min(nodes.length - 1, at);
  if (chosen < 0) return grid.removeAttribute("aria-activedescendant");
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
    if (target !== grid) select([...grid.children].indexOf(target));
  });
}

grid.addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow(), ArrowUp: -perRow(), Home: -nodes.length, End: nodes.length };
  if (!(event.key in steps)) return;
  event.preventDefault();
  select(chosen < 0 ? 0 : Math.max(0, chosen + steps[event.key]));
});
grid.addEventListener("focus", () => chosen < 0 && select(0));
partition.addEventListener("change", () => choose(() => {}));
