// Asks the server how the stream goes, once a second, and shows it. Whatever comes from the stream is put in
// as text, never as HTML.

import { Plot, range, ticks } from "./charts.js";
import * as words from "./words.js";

const find = (id) => document.getElementById(id);
const plots = Object.fromEntries(
  ["timeline", "likelihood", "usage", "rate", "memory", "certificate"].map((id) => [id, new Plot(find(id))]),
);
const points = { whole: { epoch: "", list: [] }, latest: { epoch: "", list: [] } };
const COLUMNS = ["step", "lines", "overall", "recent", "lowest", "highest", "rate", "certificate", "memory", "usage"];
let shown = "whole", view = null, build = null, failures = 0, timer = 0, asking = false;

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function make(name, text = "", kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Fill a node anew only if what it shows has changed: a reader may have selected some of it.
const filled = new Map();
function fill(node, data, children) {
  const now = JSON.stringify(data);
  if (filled.get(node) === now) return;
  filled.set(node, now);
  node.replaceChildren(...children());
}

const colour = (option) => view.colours[option % view.colours.length];
const column = (list, name) => list.map((point) => point[COLUMNS.indexOf(name)]);

// ---- asking

async function ask() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  const known = Object.entries(points).map(([name, { epoch, list }]) => `${name}=${epoch}.${list.length}`);
  try {
    const reply = await fetch(`state?${known.join("&")}`, { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
    take(await reply.json());
    failures = 0;
    find("lost").hidden = true;
    document.body.classList.remove("stale");
  } catch (error) {
    failures += 1;
    if (failures > 1) lose(error);
  }
  const wait = failures ? Math.min(1000 * failures, 5000) : document.hidden ? 5000 : view.reading === null ? 1000 : 300;
  asking = false;
  timer = setTimeout(ask, wait);
}

function take(found) {
  if (build !== null && found.build !== build) location.reload(); // another version serves now
  build = found.build;
  view = found;
  for (const [name, mine] of Object.entries(points)) {
    const { epoch, first, points: fresh } = found[name];
    mine.list = (epoch === mine.epoch ? mine.list.slice(0, first) : []).concat(fresh);
    mine.epoch = epoch;
  }
  show();
}

function lose(error) {
  const reason = error instanceof TypeError || error.name === "TimeoutError" ? "it does not answer" : error.message;
  find("lost").hidden = false;
  put(find("lost"), `Lost the server (${reason}). It may have been stopped: skillstream watch starts it again. What is shown is old; this page goes on asking.`);
  document.body.classList.add("stale");
  document.title = "lost the server · skillstream";
}

// ---- showing

function show() {
  const { health, status } = view;
  const any = status !== null || points.whole.list.length > 0;
  put(find("name"), view.name || view.directory);
  const pill = find("pill");
  put(pill, health.word);
  pill.className = `pill ${health.kind}`;
  find("said").hidden = !health.said;
  put(find("said"), health.said);
  find("said").classList.toggle("alarm", health.kind === "bad");
  put(find("beside"), beside(status, health));
  document.title = `${health.word} · ${any ? `${words.short(samples())} samples · ` : ""}${view.name} · skillstream`;
  find("nothing").hidden = any;
  put(find("nothing"), health.kind === "none" ? `Waiting for: skillstream stream SOURCE --state ${view.directory}` : "No samples yet.");
  find("found").hidden = !any;
  if (!any) return;
  tiles(status ?? {});
  timeline(status?.recent ?? null);
  curves();
  shares(status);
  rejects(view.rejects);
  events(view.events);
  facts(status ?? {});
}

// The metrics may be ahead of the status.
function samples() {
  const counted = [view.status?.samples, points.whole.list.at(-1)?.[0]].filter(words.known);
  return counted.length ? Math.max(...counted) : null;
}

function beside(status, health) {
  const parts = [];
  if (view.reading !== null) parts.push(`reading what came before: ${words.percent(view.reading)}`);
  if (status?.updated) {
    const age = view.now - status.updated;
    if (health.kind !== "good") parts.push(`last word ${words.duration(age)} ago`);
    else if (status.began) parts.push(`for ${words.duration(view.now - status.began)}`);
  }
  if (status?.source) parts.push(`learning from ${status.source}`);
  return parts.join(" · ");
}

function tiles(status) {
  const likely = status.option === null || status.option === undefined ? null : status.option_probabilities?.[status.option];
  const behind = words.known(status.checkpoint) ? `${words.whole(Math.max(0, samples() - status.checkpoint))} samples ago` : "";
  const age = words.known(view.checkpointed) ? `${words.duration(view.now - view.checkpointed)} ago` : behind || "none yet";
  const last = view.rejects.latest.at(-1);
  const entries = [
    ["Samples", words.whole(samples()), `${words.whole(status.episodes)} episodes`],
    ["Samples a second", words.rate(status.rate), view.health.kind === "good" ? "just now" : "when it last spoke"],
    ["Log-likelihood, recent", words.decimal(status.recent_log_likelihood), `${words.decimal(status.log_likelihood)} overall`],
    ["Running option", words.whole(status.option), words.known(likely) ? `probability ${words.decimal(likely, 2)}` : ""],
    ["Checkpoint", age, age === behind ? "" : behind],
    ["Rejected lines", words.whole(status.rejected), last ? `last: line ${words.whole(last.line)}` : ""],
    ["Changes of the expert", words.whole(status.drifts), words.known(status.last_drift) ? `last at sample ${words.whole(status.last_drift)}` : ""],
    ["Certificate", words.small(status.certificate), words.known(status.window) ? `window of ${words.whole(status.window)} samples` : ""],
  ];
  fill(find("tiles"), entries, () => entries.map(([name, number, more]) => {
    const tile = make("div", "", "tile"), value = make("dd", number);
    value.append(make("small", more));
    tile.append(make("dt", name), value);
    return tile;
  }));
}

function timeline(recent) {
  const rows = recent?.options ?? [], first = recent?.first ?? 0;
  const many = rows[0]?.length ?? 0;
  const stack = Array.from({ length: many }, (_, option) => rows.map((row) => row[option]));
  const likely = (row) => row.map((p, option) => ({ p, option })).sort((a, b) => b.p - a.p).slice(0, 3).filter(({ p }, i) => i === 0 || p >= 0.01);
  const starts = (recent?.starts ?? []).flatMap((start, i) => (start ? [first + i] : []));
  plots.timeline.show({
    height: 190,
    label: rows.length
      ? `Probabilities of ${many} options over the last ${rows.length} samples, in which ${starts.length} episodes begin. Arrow keys read them.`
      : "No samples to show yet",
    xs: rows.map((_, i) => first + i), cells: true,
    xTitle: "sample", xFormat: words.whole,
    low: 0, high: 1, yTicks: [0, 0.5, 1], yFormat: String,
    layers: [{ stack, colours: stack.map((_, option) => colour(option)) }],
    starts,
    marks: marks(),
    read: (i) => likely(rows[i]).map(({ p, option }) => ({ name: `option ${option}`, value: words.decimal(p, 2), colour: colour(option) })),
  });
}

function marks() {
  const kinds = { drift: "drift", restart: "again" };
  return view.events.map(({ event, step }) => ({ at: step, name: event.slice(0, 12), kind: kinds[event] ?? "other" }));
}

function curves() {
  const { list } = points[shown];
  const steps = column(list, "step");
  likelihood(list, steps);
  usage(list.filter((point) => point[9]?.length === (list.at(-1)[9] ?? list.at(-2)?.[9])?.length && point[9]));
  small("rate", list, steps, words.short, words.rate, "samples a second");
  small("memory", list, steps, words.bytes, words.bytes, "resident memory");
  certificate(list, steps);
}

function likelihood(list, steps) {
  const [overall, recent, lowest, highest] = ["overall", "recent", "lowest", "highest"].map((name) => column(list, name));
  const [low, high] = range([overall, recent], 0.1);
  const yTicks = ticks(low, high, 5);
  const digits = Math.min(4, Math.max(1, ...yTicks.map((tick) => (String(tick).split(".")[1] ?? "").length)));
  const drifts = view.events.filter(({ event }) => event === "drift").length;
  plots.likelihood.show({
    height: 270,
    label: `Log-likelihood a sample over ${steps.length} points up to sample ${words.whole(steps.at(-1))}: ` +
      `recent ${words.decimal(recent.at(-1))}, overall ${words.decimal(overall.at(-1))}, ${drifts} changes of the expert. Arrow keys read it.`,
    xs: steps, xTitle: "samples", xFormat: words.short,
    low, high, yTicks, yFormat: (tick) => words.decimal(tick, digits),
    layers: [{ band: [lowest, highest] }, { line: overall, kind: "overall" }, { line: recent, kind: "recent" }],
    marks: marks(),
    read: (i) => [
      { name: "recent", value: words.decimal(recent[i], 4), kind: "recent" },
      { name: "overall", value: words.decimal(overall[i], 4), kind: "overall" },
    ],
  });
}

function usage(list) {
  const rows = column(list, "usage"), many = rows.at(-1)?.length ?? 0;
  const stack = Array.from({ length: many }, (_, option) => rows.map((row) => row[option]));
  plots.usage.show({
    height: 230,
    label: `Shares of ${many} options over ${rows.length} points. Arrow keys read them.`,
    xs: column(list, "step"), xTitle: "samples", xFormat: words.short,
    low: 0, high: 1, yTicks: [0, 0.5, 1], yFormat: words.percent,
    layers: [{ stack, colours: stack.map((_, option) => colour(option)) }],
    marks: marks(),
    read: (i) => rows[i].slice(0, 8).map((share, option) => ({ name: String(option), value: words.percent(share), colour: colour(option) })),
  });
}

function small(name, list, steps, yFormat, format, title) {
  const values = column(list, name);
  const high = range([values])[1];
  const yTicks = ticks(0, high, 3);
  plots[name].show({
    height: 170,
    label: `Line of ${title}: ${format(values.at(-1) ?? null)} now. Arrow keys read it.`,
    xs: steps, xTitle: "samples", xFormat: words.short,
    low: 0, high, yTicks, yFormat,
    layers: [{ line: values, kind: "recent" }],
    read: (i) => [{ name: "", value: format(values[i]), kind: "recent" }],
  });
}

function certificate(list, steps) {
  const values = column(list, "certificate");
  const powers = values.map((value) => (value === null ? null : Math.log10(Math.max(value, 1e-18))));
  const [low, high] = range([powers]).map((end, i) => (i ? Math.ceil(end + 0.05) : Math.floor(end - 0.05)));
  plots.certificate.show({
    height: 170,
    label: `Line of the certificate, in powers of ten: ${words.small(values.at(-1) ?? null)} now. Arrow keys read it.`,
    xs: steps, xTitle: "samples", xFormat: words.short,
    low, high, yTicks: ticks(low, high, 3, 1), yFormat: (tick) => `1e${tick}`.replace("-", "−"),
    layers: [{ line: powers, kind: "recent" }],
    read: (i) => [{ name: "", value: words.small(values[i]), kind: "recent" }],
  });
}

function shares(status) {
  const now = status?.usage ?? points.latest.list.at(-1)?.[9] ?? [];
  fill(find("shares"), [now, status?.option], () => now.map((share, option) => {
    const bar = make("li"), length = make("i"), running = option === status?.option;
    length.style.setProperty("background", colour(option));
    length.style.setProperty("width", `${100 * share}%`);
    bar.append(make("span", running ? `${option} (running)` : String(option)), make("span", "", "room"), make("b", words.percent(share)));
    bar.children[1].append(length);
    return bar;
  }));
}

// ---- tables

function row(first, ...cells) {
  const made = document.createElement("tr");
  made.append(first, ...cells);
  return made;
}

function heading(text, kind = "") {
  const made = make("th", text, kind);
  made.scope = "row";
  return made;
}

function rejects({ reasons, latest }) {
  const none = latest.length === 0, counted = view.status?.rejected;
  find("no-rejects").hidden = !none;
  put(find("no-rejects"), counted ? `${words.whole(counted)} lines were rejected; rejects.jsonl does not tell which.` : "Every line so far could be learnt from.");
  find("some-rejects").hidden = none;
  fill(find("reasons"), reasons, () => reasons.map(([reason, lines]) => row(heading(reason), make("td", words.whole(lines), "number"))));
  fill(find("latest-rejects"), latest, () => latest.toReversed().map(({ line, reason, text }) => {
    const cell = make("td", reason);
    cell.append(make("code", text));
    return row(heading(words.whole(line), "number"), cell);
  }));
}

function events(list) {
  find("events-part").hidden = list.length === 0;
  const latest = list.slice(-12).reverse();
  fill(find("events"), latest, () => latest.map(({ event, step, details }) =>
    row(heading(event), make("td", words.whole(step), "number"), make("td", details))));
}

function facts(status) {
  const damaged = Object.entries(view.damaged).filter(([, lines]) => lines > 0);
  const rows = [
    ["Source", status.source ?? words.DASH],
    ["Position in it", status.position ?? words.DASH],
    ["State directory", view.directory],
    ["Writer", words.known(status.pid) ? `process ${status.pid}` : words.DASH],
    ["Began", words.time(status.began)],
    ["Last word", words.time(status.updated)],
    ["Memory", words.bytes(status.memory)],
    ["Impossible samples", `${words.whole(status.impossible)} (of probability zero under the policy)`],
  ];
  if (damaged.length) rows.push(["Damaged", damaged.map(([file, lines]) => (file === "status.json" ? file : `${words.whole(lines)} lines of ${file}`)).join(", ")]);
  fill(find("facts"), rows, () => rows.map(([name, value]) => row(heading(name), make("td", value))));
}

// ---- beginning

for (const name of ["whole", "latest"]) {
  find(`show-${name}`).addEventListener("click", () => {
    shown = name;
    for (const other of ["whole", "latest"]) find(`show-${other}`).setAttribute("aria-pressed", String(other === name));
    if (view) curves();
  });
}
document.addEventListener("visibilitychange", () => document.hidden || ask());
ask();
