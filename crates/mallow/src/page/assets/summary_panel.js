// The answer before anything is clicked: peak, leaked, temporary, RSS, and the best insight.

import { ask, isExported, leftOut } from "./data.js";
import { byId, element, fill } from "./dom.js";
import { belowWords, liveWords } from "./rss_words.js";
import { changeState } from "./state.js";
import { clipped, formatBytes, formatCount, formatShare, formatTime, MEASURES, placeOf, printable } from "./units.js";

export async function startSummary(context) {
  const { about } = context;
  byId("subject-name").textContent = printable(about.name);
  const command = printable((about.command ?? []).join(" "));
  byId("subject-command").textContent = command;
  byId("subject-command").title = command.slice(0, 2000);
  document.title = `${printable(about.name)} – Mallow`;
  try {
    const report = await ask("report", { limit: 20 });
    fill(byId("summary"), about.compared ? await comparison(context) : facts(context, report));
    notices(about, report);
    return report;
  } catch (error) {
    fill(byId("summary"), element("p", { class: "empty" }, error.message));
    notices(about, {});
    return null;
  } finally {
    byId("summary").removeAttribute("aria-busy");
  }
}

function notices(about, report) {
  const sentences = [...(about.gaps ?? []), ...(about.go_reasons?.notes ?? []), ...leftOut()];
  if (report.cut_short) sentences.push(typeof report.cut_short === "string" ? report.cut_short : "The recording was cut short: it holds what was written before.");
  if (report.lost > 0) sentences.push(`${formatCount(report.lost)} events were lost.`);
  if (report.damaged > 0) sentences.push(`${formatCount(report.damaged)} parts of the file are damaged and were passed over.`);
  if (about.format) sentences.push(`A file of ${about.format}: it holds ${(about.measures ?? []).map((name) => MEASURES[name]?.title.toLowerCase() ?? name).join(", ")}.`);
  for (const missing of report.missing_names ?? []) {
    if (missing.without_functions) sentences.push(`${printable(missing.module)}: ${missing.found}. ${missing.remedy}.`);
  }
  const [first, ...rest] = sentences.map((sentence) => element("p", {}, printable(sentence)));
  fill(byId("notices"), first && rest.length === 0 && first,
    rest.length > 0 && element("details", {}, element("summary", {}, `${sentences.length} notes on this recording`), first, rest));
}

// The place with most by a measure, as the overview lists it.
export function largestOf(report, by) {
  const list = report.largest?.find((entry) => entry.by === by);
  return list?.largest?.[0] ? { place: list.largest[0], total: list.total } : null;
}

function tile(context, { id, title, value, more, by, view }) {
  const open = () => changeState({ by: by ?? context.by(), view: view ?? "flame", from: "", to: "", zoom: "", sandwich: "" });
  return element("div", { class: "tile", id: `tile-${id}` },
    element("button", { type: "button", class: "tile-head", onclick: open, title: "Show it below" },
      element("span", { class: "label" }, title), element("span", { class: "figure number" }, value)),
    element("div", { class: "tile-more" }, more));
}

function largest(context, report, by) {
  const found = largestOf(report, by);
  if (!found || !found.total) return null;
  const { place, total } = found;
  const value = place[MEASURES[by].key] ?? place[by];
  const open = () => {
    changeState({ by });
    context.openFunction(place, place.largest_site?.frames);
  };
  return element("button", { type: "button", class: "link largest", "data-largest": by, title: "Show its call paths and source", onclick: open },
    element("span", { class: "number" }, formatShare(value, total)), " ", element("span", { class: "name" }, clipped(printable(place.function), 200)),
    place.line ? element("span", { class: "name quiet" }, ` ${placeOf(place)}`) : null);
}

function facts(context, report) {
  const tiles = [];
  const has = (name) => context.measures().includes(name);
  const line = (...parts) => element("div", { class: "quiet number" }, parts.filter(Boolean).join(", "));
  if (has("peak")) {
    tiles.push(tile(context, { id: "peak", title: "Live at peak", by: "peak", value: formatBytes(report.peak_bytes),
      more: [line(report.peak_ms !== undefined && `at ${formatTime(report.peak_ms)}`, `${formatCount(report.peak)} blocks`), largest(context, report, "peak")] }));
  }
  if (has("leaked")) {
    const lost = report.lost_bytes ? `${formatBytes(report.lost_bytes)} lost` : report.lost_bytes === 0 ? "none lost" : null;
    tiles.push(tile(context, { id: "leaked", title: "Leaked", by: "leaked", view: "leaks", value: formatBytes(report.leaked_bytes),
      more: [line(`${formatCount(report.leaked)} blocks`, lost), largest(context, report, "leaked")] }));
  }
  if (has("temporary")) {
    tiles.push(tile(context, { id: "temporary", title: "Temporary", by: "temporary", view: "lines", value: formatCount(report.temporary),
      more: [line(`${formatShare(report.temporary, report.allocations)} of allocations`, formatBytes(report.temporary_bytes)), largest(context, report, "temporary")] }));
  }
  if (report.highest_rss) {
    const rss = report.highest_rss;
    const below = belowWords(rss.rss, rss.peak_rss);
    tiles.push(tile(context, { id: "rss", title: "Highest RSS", view: "rss", value: formatBytes(rss.peak_rss),
      more: [line(below ? `kernel's maximum of pid ${rss.pid}` : `at ${formatTime(rss.ms)} of pid ${rss.pid}`),
        below && line(`${formatBytes(rss.rss)} at ${formatTime(rss.ms)}, ${below}`), line(liveWords(rss))] }));
  }
  tiles.push(tile(context, { id: "allocated", title: "Allocated", by: context.measures().includes("bytes") ? "bytes" : context.by(), value: formatBytes(report.allocated_bytes),
    more: [line(`${formatCount(report.allocations)} allocations`, report.duration_ms && `${formatTime(report.duration_ms)}`), largest(context, report, has("bytes") ? "bytes" : "allocations")] }));
  return [element("div", { class: "tiles" }, tiles), insight(context, report)];
}

function insight(context, report) {
  const best = report.insights?.[0];
  if (!best) return null;
  return element("button", { type: "button", class: "insight-line", id: "best-insight", onclick: () => changeState({ view: "insights" }) },
    element("span", { class: "label" }, "Best insight"), element("span", { class: "number strong" }, `${(100 * best.share).toFixed(1)} %`),
    element("span", { class: "name" }, clipped(printable(best.function), 120)), element("span", {}, printable(best.remedy)),
    report.insights_in_all > 1 && element("span", { class: "quiet" }, `and ${report.insights_in_all - 1} more`));
}

async function comparison(context) {
  const diff = isExported() ? null : await ask("diff", { by: context.by(), limit: 20 }).catch(() => null);
  if (!diff) return element("p", { class: "empty" }, `Compared with ${printable(context.about.compared.name)}`);
  const tiles = ["allocations", "bytes", "peak", "leaked", "temporary"].map((by) => {
    const total = diff.totals?.find((entry) => entry.by === by);
    if (!total) return null;
    const { format, title } = MEASURES[by];
    const kind = total.change > 0 ? "rise" : total.change < 0 ? "fall" : "";
    return tile(context, { id: by, title, by, value: element("span", { class: kind }, `${total.change > 0 ? "+" : ""}${format(total.change)}`),
      more: [element("div", { class: "quiet number" }, `${format(total.before)} → ${format(total.after)}`)] });
  });
  const first = diff.verdict?.places?.[0];
  return [element("p", { class: "quiet" }, `Change from ${printable(context.about.compared.name)} to ${printable(context.about.name)}`), element("div", { class: "tiles" }, tiles),
    first && element("button", { type: "button", class: "insight-line", id: "verdict", onclick: () => context.openFunction(first, first.stack?.frames) },
      element("span", { class: "label" }, "Largest change"), element("span", { class: "number strong" }, `${first.change > 0 ? "+" : ""}${MEASURES[diff.verdict.by]?.format(first.change) ?? first.change}`),
      element("span", { class: "name" }, clipped(printable(first.function), 160)))];
}
