// The head of the page: who says it, how fresh it is, what was saved, and the present figures.
import { draw } from "./figures.js";
import { clock, counted, duration, element, figure, kilowatts, number, say } from "./text.js";

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
    const old = status.at_unix_s ? `, the page shows ${clock(status.at_unix_s, Date.now() / 1000)}` : "";
    say(at("looked"), `no agent answers${old}`);
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
  const [value, unit = ""] = known.length ? kilowatts(known.reduce((sum, node) => sum + node.watts, 0)).split(" ") : ["not known"];
  const tag = !known.length ? "" : measured === known.length ? "measured" : measured ? "partly measured" : "modelled";
  tile("power", value, unit, known.length === nodes.length ? "" : `${known.length} of ${counted(nodes.length, "node")}`, tag);
}

const money = (value) => number(value, Math.abs(value) < 10000 ? 2 : 0);
const TIMES = { day: "today", week: "in seven days", month: "this month" };
const NOTHING = "Nothing is booked yet. The saving appears here within 15 min after the first node goes to sleep, or would in shadow mode.";
const chosen = { range: "day", by: "money" };
let saved = null;

/** Chooses the range of what was saved, or money or CO2. */
export function choose(key, value) {
  chosen[key] = value;
  for (const button of document.querySelectorAll(`#${key} button`)) button.ariaPressed = String(button.value === value);
  if (saved) showSaved(saved);
  draw({ ...chosen });
}

/** The account of the chosen range; shadow mode's where nothing was done, but would have been. */
export function showSaved(accounts) {
  saved = accounts;
  const [real, shadow] = accounts[chosen.range] ?? [{ energy_j: null, levers: [], unknown: [] }, { energy_j: null }];
  const isShadow = real.energy_j === null && shadow.energy_j !== null, account = isShadow ? shadow : real;
  say(at("saved-title"), `${isShadow ? "Would have been saved" : "Saved"} ${TIMES[chosen.range]}`);
  const value = at("saved-value"), byCarbon = chosen.by === "carbon";
  const energy = account.energy_j === null ? "" : `${figure(account.energy_j / J_PER_KWH)} kWh`;
  const amount = account.energy_j === null ? ["–"] : byCarbon
    ? account.carbon_g === null ? ["not known"] : [figure(account.carbon_g / 1000), "kg CO2"]
    : account.cost === null ? [figure(account.energy_j / J_PER_KWH), "kWh"] : [money(account.cost), account.currency];
  value.replaceChildren(amount[0], ...(amount[1] ? [element("small", {}, ` ${amount[1]}`)] : []), ...(account.known ? [" ", element("span", { className: "tag" }, account.known)] : []));
  const isRange = (account.low ?? null) !== null && account.high !== null && money(account.low) !== money(account.high);
  const range = isRange ? `${money(account.low)} to ${money(account.high)} ${account.currency} in 19 of 20 cases` : "";
  const isKnown = account.energy_j !== null && account.cost !== null && !byCarbon;
  const other = byCarbon
    ? account.cost === null || account.energy_j === null ? "" : `${money(account.cost)} ${account.currency}`
    : (account.carbon_g ?? null) === null ? "" : `${figure(account.carbon_g / 1000)} kg CO2`;
  const share = isKnown && account.share !== null ? `${number(100 * account.share, 1)} % of the bill` : "";
  say(at("saved-share"), [share, other].filter(Boolean).join(" · "));
  say(at("saved-year"), isKnown && account.cost_per_year !== null ? `${number(account.cost_per_year)} ${account.currency} a year at this rate` : "");
  const missing = (account.unknown ?? []).map((name) => `without ${name}, which is not known`);
  if (account.delays_text) missing.push(account.delays_text);
  if (isKnown && account.share === null) missing.push("the bill is not known: meters or prices miss much of this time");
  if (isKnown && account.cost_per_year === null) missing.push("a yearly rate needs a whole day");
  const why = account.energy_j === null ? accounts.trouble || NOTHING : [byCarbon ? (account.carbon_g === null ? "the CO2 of the electricity is not known" : "") : account.cost === null ? "no price is known" : range, energy, isShadow ? "shadow mode: nothing was done" : "", ...missing].filter(Boolean).join(" · ");
  say(at("saved-note"), why);
  value.hidden = account.energy_j === null;
  const sinceS = accounts.since?.[chosen.range] ?? 0;
  draw({ sinceS, days: (accounts.days ?? []).filter((each) => each.is_shadow === isShadow && each.until_unix_s > sinceS) });
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
  if (never && !late) say(at("looked"), `no cycle of the agent has succeeded yet; it tries every ${duration(status.cycle_s)}`);
  else say(at("looked"), late ? `the agent has reported nothing new for ${duration(lateS)}` : `looks every ${duration(status.cycle_s)}, last at ${clock(status.at_unix_s, status.at_unix_s)}`);
  say(at("scheduler"), status.scheduler_use?.text ? `scheduler: ${status.scheduler_use.text}` : "");
}
