// A process that is watched: what is live now, what grows, and memory over time, anew every two seconds.

import { ask, forget } from "./data.js";
import { byId, element, fill, hideTip, message, showTip } from "./dom.js";
import { onColours } from "./palette.js";
import { changeState } from "./state.js";
import { drawSeries } from "./time_chart.js";
import { formatBytes, formatCount, formatOf, formatTime, printable } from "./units.js";

const EVERY_MS = 2000;

const live = { paused: false, latest: null, scale: null };

export function latestLook() {
  return live.latest;
}

// `refresh`: shows the view again, with fresh answers.
export async function startLive(about, refresh) {
  byId("subject-name").textContent = printable(about.name);
  byId("subject-command").textContent = printable((about.command ?? []).join(" "));
  document.title = `${printable(about.name)} – Mallow`;
  build();
  onColours(draw);
  new ResizeObserver(draw).observe(byId("time"));
  for (;;) {
    if (!live.paused && !document.hidden && !(await look(refresh))) return;
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}

async function look(refresh) {
  let answer;
  try {
    answer = await ask("live");
  } catch (error) {
    ended(error);
    return false;
  }
  // It was asked for before the pause: what is shown stays.
  if (live.paused && live.latest) return true;
  // What was asked before is of an older look.
  forget();
  live.latest = answer;
  byId("summary").removeAttribute("aria-busy");
  paint(answer);
  await refresh();
  return true;
}

function ended(error) {
  const last = live.latest && ` What is shown is of ${formatTime(live.latest.report.watched_ms)} after the watching began.`;
  fill(byId("notices"), element("p", { id: "live-ended" }, error.status === 0 ? "The process has ended, or mallow view has." : error.message, last));
  byId("live-pause").disabled = true;
  if (!live.latest) fill(byId("summary"), message("Nothing was seen of it."));
  byId("summary").removeAttribute("aria-busy");
}

function build() {
  const entry = (colour, text, dashed) => element("span", { class: "key" }, element("i", { class: dashed ? "swatch dashed" : "swatch", style: { background: `var(${colour})` } }), text);
  const chart = element("div", { id: "time-chart", class: "time-chart live", role: "img", "aria-label": "Live bytes and RSS over time" }, element("canvas", { id: "time-series" }));
  chart.addEventListener("pointermove", tipAt);
  chart.addEventListener("pointerleave", hideTip);
  fill(byId("time"), element("div", { class: "row" },
    element("div", { class: "legend" }, entry("--rss", "RSS", true), entry("--live", "Live bytes, estimated")),
    element("div", { class: "row end" }, element("span", { id: "live-age", class: "number quiet" }),
      element("button", { type: "button", id: "live-pause", class: "plain", "aria-pressed": "false", title: "Keep what is shown (p)", onclick: togglePause }, "Pause"))), chart);
}

export function togglePause() {
  live.paused = !live.paused;
  const button = byId("live-pause");
  button.setAttribute("aria-pressed", live.paused ? "true" : "false");
  button.textContent = live.paused ? "Continue" : "Pause";
}

function paint(answer) {
  const { report, headline, sentences, words } = answer;
  const memory = report.memory;
  const grows = report.growing_places + report.places_growing_so_far;
  const tile = (id, title, value, more, to) => element("div", { class: "tile", id: `tile-${id}` },
    element("button", { type: "button", class: "tile-head", title: "Show it below", onclick: () => changeState({ zoom: "", sandwich: "", ...to }) },
      element("span", { class: "label" }, title), element("span", { class: "figure number" }, value)),
    element("div", { class: "tile-more" }, more.filter(Boolean).map((line) => element("div", { class: "quiet number" }, line))));
  const sure = report.growing_places > 0 ? `${formatCount(report.growing_places)} significantly` : grows > 0 && "so far; it may end";
  const of = (part) => part.part.replaceAll("_", " ");
  const grown = memory?.parts.find((part) => part.part === memory.grows);
  const tiles = [
    tile("live", "Live now", words.live_bytes, [words.live, formatOf(report.samples, "sample")], { view: "flame", by: "live" }),
    tile("growing", "Places that grow", formatCount(grows), [sure], { view: "places", sort: "" }),
    memory && tile("rss", "RSS", formatBytes(memory.rss), [sentences.heap, grown && `${of(grown)} grew ${formatBytes(grown.grown_bytes)}`], { view: "memory" }),
    tile("sampled", "Watched for", formatTime(report.watched_ms), [report.period_bytes === null ? "nothing is sampled" : `one sample in ${formatBytes(report.period_bytes)}`], { view: "flame", by: "bytes" }),
  ];
  const focused = document.activeElement?.closest?.(".tile")?.id;
  fill(byId("summary"), element("div", { class: "tiles" }, tiles),
    element("button", { type: "button", class: "insight-line", id: "headline", onclick: () => changeState({ view: "places", sort: "" }) }, element("span", {}, printable(headline))));
  if (focused) byId(focused)?.querySelector("button")?.focus();
  byId("live-age").textContent = `as of ${formatTime(report.watched_ms)}`;
  notices(sentences);
  draw();
}

function notices({ attached, incomplete }) {
  const lines = [attached && `The process was ${attached}.`, ...incomplete.map((sentence) => `Incomplete: ${sentence}`)];
  fill(byId("notices"), lines.filter(Boolean).map((line) => element("p", {}, printable(line))));
}

function draw() {
  if (!live.latest || !byId("time-series")) return;
  const { history, rss, report } = live.latest;
  const now = Math.max(report.watched_ms, 1);
  if (history.length === 0) return;
  // Live bytes hold until the next point.
  const points = history[0][0] > 0 ? [[0, 0], ...history] : history;
  const times = points.map((point) => point[0]);
  const series = { boundaries: [...times, Math.max(now, times.at(-1) + 1)], live: points.map((point) => point[1]), rss, allocations: [] };
  live.scale = drawSeries(byId("time-series"), series, true, byId("time-chart").clientWidth);
  byId("time-chart").setAttribute("aria-label", `Live bytes and RSS over time: now ${formatBytes(series.live.at(-1))} live, RSS ${rss.length > 0 ? formatBytes(rss.at(-1)[1]) : "unknown"}`);
}

function tipAt(event) {
  if (!live.scale || !live.latest) return;
  const ms = live.scale.ms(event.clientX - byId("time-chart").getBoundingClientRect().left);
  const before = (points) => points.filter((point) => point[0] <= ms).at(-1);
  const [heap, rss] = [before(live.latest.history), before(live.latest.rss)];
  if (!heap) { hideTip(); return; }
  showTip(event.clientX, event.clientY, element("b", { class: "number" }, formatTime(heap[0])),
    element("div", { class: "number" }, `live ${formatBytes(heap[1])}`), rss && element("div", { class: "number" }, `RSS ${formatBytes(rss[1])}`));
}
