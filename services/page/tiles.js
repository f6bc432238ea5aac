// The head of the page: who says it, how fresh it is, and the six figures.
import { ago, clock, counted, element, figure, number, power, say } from "./text.js";

const J_PER_KWH = 3.6e6;
const AWAKE = ["on", "booting", "going down"];
const at = (id) => document.getElementById(id);

function tile(name, value, unit, note, tag = "") {
  const [first, second] = at(`tile-${name}`).querySelectorAll("dd");
  first.replaceChildren(value, unit ? element("small", {}, ` ${unit}`) : "");
  second.replaceChildren(note, tag ? " " : "", tag ? element("span", { className: "tag" }, tag) : "");
}

export function showStatus(status) {
  if (status.silent) {
    at("looked").dataset.is = "late";
    say(at("looked"), "no agent answers");
    showTrouble([`${status.silent}\n${status.hint}`]);
    return;
  }
  say(at("cluster"), `${status.cluster} · ${status.scheduler}`);
  document.title = status.cluster ? `${status.cluster} · offpeak` : "offpeak";
  const mode = at("mode");
  mode.hidden = false;
  mode.dataset.mode = status.mode;
  mode.title = status.lease ? status.lease.text : "";
  if (status.lease && !status.lease.is_active) say(mode, status.lease.text);
  else say(mode, status.mode === "active" ? "active" : `${status.mode}: nothing is done${status.mode === "advise" ? " by itself" : ""}`);
  showTrouble(status.troubles);
  showPrice(status);
  showDemand(status.demand, status.at_unix_s);
  const counts = new Map(status.nodes.counts);
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const awake = AWAKE.reduce((sum, state) => sum + (counts.get(state) ?? 0), 0);
  const rest = [...counts].filter(([state]) => state !== "on").map(([state, count]) => `${count} ${state}`);
  tile("nodes", number(awake), `of ${number(all)}`, rest.join(", ") || (all ? "all on" : "none may be switched"));
  const jobs = new Map(status.job_counts);
  tile("jobs", number(jobs.get("pending") ?? 0), "", `${number(jobs.get("running") ?? 0)} running`);
}

function showPrice({ price, at_unix_s: nowS }) {
  say(at("prices-unit"), price.unit);
  if (price.now === null) return tile("price", "not known", "", price.basis);
  const by = price.decided_by ? ` by ${price.decided_by}` : "";
  const peak = price.on_peak === null ? "" : (price.on_peak ? "on-peak" : "off-peak") + by;
  const until = price.until_unix_s ? ` until ${clock(price.until_unix_s, nowS)}` : "";
  tile("price", figure(price.now), price.unit, `${peak}${until}`);
}

function showTrouble(lines) {
  const text = lines.join("\n");
  say(at("trouble"), text);
  at("trouble").hidden = !text;
}

export function showPower(nodes) {
  const known = nodes.filter((node) => node.watts !== null);
  const measured = known.filter((node) => node.measured).length;
  const [value, unit] = power(known.length ? known.reduce((sum, node) => sum + node.watts, 0) : null);
  const tag = !known.length ? "" : measured === known.length ? "measured" : measured ? "partly measured" : "modelled";
  tile("power", value, unit, known.length === nodes.length ? "" : `${known.length} of ${counted(nodes.length, "node")}`, tag);
}

const money = (value) => number(value, Math.abs(value) < 10000 ? 2 : 0);

export function showSaved({ today, month, shadow }) {
  const isShadow = month.energy_j === null && shadow.energy_j !== null;
  for (const [name, saved] of [["today", today], ["month", isShadow ? shadow : month]]) {
    if (saved.energy_j === null || saved.energy_j === undefined) {
      tile(name, "–", "", name === "today" ? "no saving is booked" : "");
      continue;
    }
    const energy = `${figure(saved.energy_j / J_PER_KWH)} kWh`;
    const range = saved.low === null || saved.high === null ? "" : `${money(saved.low)} to ${money(saved.high)}`;
    const share = saved.share === null ? "" : `${number(Math.round(1000 * saved.share) / 10)} % of the bill`;
    const note = [saved.is_shadow ? "in shadow mode" : "", range, share, energy].filter(Boolean).join(" · ");
    if (saved.cost === null) tile(name, energy, "", "no price is known", saved.known);
    else tile(name, money(saved.cost), saved.currency, note, saved.known);
  }
  say(document.querySelector("#tile-month dt"), isShadow ? "would have saved this month" : "saved this month");
}

/** The demand charge that costs most; the tooltip has all. */
function showDemand(charges, nowS) {
  const all = [...charges].sort((one, other) => other.cost - one.cost).map((each) => {
    const cost = `${money(each.cost)} ${each.currency}${each.is_over ? "" : " so far"}`;
    const saved = each.saved === null ? "saving not known" : `saved ${money(each.saved)}`;
    return { ...each, note: [clock(each.at_unix_s, nowS), cost, saved].join(" · ") };
  });
  at("tile-demand").hidden = !all.length;
  at("tile-demand").title = all.map((each) => `${each.name}: ${number(each.peak_kw, 1)} kW · ${each.note}${each.why && `: ${each.why}`}`).join("\n");
  if (all.length) tile("demand", number(all[0].peak_kw, 1), "kW", all[0].note);
}

/** How long ago the agent looked, by how much time has passed here since it said so. */
export function showAge(status, heardMs) {
  if (!status || status.silent) return;
  const lateS = (Date.now() - heardMs) / 1000;
  const late = lateS > Math.max(30, 3 * status.cycle_s);
  const never = status.has_looked === false;
  at("looked").dataset.is = late || never ? "late" : "well";
  if (never && !late) say(at("looked"), `no round of the agent has succeeded yet, it tries every ${ago(status.cycle_s)}`);
  else say(at("looked"), late ? `the agent has said nothing new for ${ago(lateS)}` : `looks every ${ago(status.cycle_s)}, last at ${clock(status.at_unix_s, status.at_unix_s)}`);
  say(at("scheduler"), status.scheduler_use?.text ? `scheduler: ${status.scheduler_use.text}` : "");
}
