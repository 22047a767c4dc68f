// The answer before anything is clicked: the totals, the best insight and the verdict, in the words of mallow report.

import { ask, isExported, leftOut } from "./data.js";
import { byId, element, fill } from "./dom.js";
import { changeState } from "./state.js";
import { clipped, formatCount, formatMargin, formatOf, formatShare, MEASURES, placeOf, printable } from "./units.js";

export async function startSummary(context) {
  const { about } = context;
  byId("subject-name").textContent = printable(about.name);
  const command = printable((about.command ?? []).join(" ")) || "(command unknown)";
  byId("subject-command").textContent = command;
  byId("subject-command").title = command.slice(0, 2000);
  document.title = `${printable(about.name)} – Mallow`;
  try {
    const report = await ask("report", { limit: 20 });
    fill(byId("summary"), about.compared ? await comparison(context) : facts(context, report));
    notices(about, report.sentences);
    return report;
  } catch (error) {
    fill(byId("summary"), element("p", { class: "empty" }, error.message));
    notices(about, null);
    return null;
  } finally {
    byId("summary").removeAttribute("aria-busy");
  }
}

// What the numbers lack comes before them, and is never folded away; what else there is to know may be.
function notices(about, sentences) {
  const paragraphs = (texts) => texts.map((text) => element("p", {}, printable(text)));
  const notes = [...(about.go_reasons?.notes ?? []), ...leftOut(), sentences?.absent, ...(sentences?.hints ?? [])].filter(Boolean);
  fill(byId("notices"), paragraphs(about.notices ?? []), notes.length === 1 && paragraphs(notes),
    notes.length > 1 && element("details", {}, element("summary", {}, `${notes.length} notes on this recording`), paragraphs(notes)));
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

// Where a row of totals leads, by the measure that it is of.
const TILES = {
  peak: { id: "peak", view: "flame" }, live: { id: "live", view: "leaks" }, temporary: { id: "temporary", view: "lines" }, allocations: { id: "allocated", view: "flame" },
  "highest RSS": { id: "rss", view: "rss" }, "live then": { id: "rss-live", view: "rss" },
};
const ORDER = ["peak", "live", "temporary", "allocations"];

// The sentences are those of mallow report: what the terminal prints, the page shows.
function facts(context, report) {
  const said = report.sentences;
  const has = (name) => context.about.measures.includes(name);
  const texts = (...parts) => parts.filter(Boolean).map((text) => element("div", { class: "quiet number" }, printable(text)));
  const figure = (row, key) => [row[key], row[`${key}_margin`]].filter(Boolean).join(" ");
  const tileOf = (row) => {
    const to = TILES[row.by ?? row.name] ?? { id: row.name.replaceAll(" ", "-").toLowerCase(), view: "flame" };
    const by = row.by === "allocations" && !has("allocations") ? "bytes" : row.by;
    const title = by === "bytes" ? MEASURES.bytes.title : `${row.name[0].toUpperCase()}${row.name.slice(1)}`;
    // What the title counts comes first: events have a number, memory has a size.
    const isCount = ["allocations", "temporary"].includes(by) || row.name === "frees";
    const number = figure(row, "number");
    const figures = isCount ? [number, figure(row, "size")] : [figure(row, "size"), number && formatOf(number, "block")];
    const [value, more] = figures.filter(Boolean);
    return tile(context, { ...to, title, by, value, more: [texts(more, row.remark), by && largest(context, report, by)] });
  };
  const rank = (row) => (ORDER.includes(row.by) ? ORDER.indexOf(row.by) : ORDER.length);
  const rows = [...said.totals].sort((one, other) => rank(one) - rank(other));
  return [
    element("p", { id: "circumstances", class: "number quiet" }, printable(said.circumstances)),
    said.counted.map((text) => element("p", { class: "quiet" }, printable(text))),
    element("div", { class: "tiles" }, rows.map(tileOf)),
    said.not_scanned && element("p", { id: "not-scanned", class: "quiet" }, printable(said.not_scanned)),
    insight(context, report),
    verdict(said.verdict),
  ];
}

export function verdict({ lead, statements }) {
  return element("p", { id: "verdict" }, element("b", {}, lead), printable(statements.join("; ")));
}

function insight(context, report) {
  const [best, said] = [report.insights?.[0], report.sentences.suggestions[0]];
  if (!best || !said) return null;
  // A file that was exported has not all of them.
  const more = (report.insights_in_all ?? 0) - (report.small_in_all ?? 0) - 1;
  return element("button", { type: "button", class: "insight-line", id: "best-insight", onclick: () => changeState({ view: "insights" }) },
    element("span", { class: "label" }, "Best insight"), element("span", { class: "number strong" }, said.saves),
    element("span", { class: "name" }, clipped(printable(best.function), 120)), element("span", {}, printable(said.text)),
    more > 0 && element("span", { class: "quiet" }, `and ${formatCount(more)} more`));
}

async function comparison(context) {
  const { compared, name, sampled, measures } = context.about;
  const by = [context.by(), ...measures].find(context.inBoth);
  const [diff, error] = isExported() ? [null, ""] : await ask("diff", { by, limit: 20 }).then((found) => [found, ""], (failed) => [null, `: ${failed.message}`]);
  if (!diff) return element("p", { class: "empty" }, `Compared with ${printable(compared.name)}${error}`);
  const tiles = ["allocations", "bytes", "peak", "live", "temporary"].map((by) => {
    const total = diff.totals?.find((entry) => entry.by === by);
    if (!total) return null;
    const { format, title } = MEASURES[by];
    const kind = total.change > 0 ? "rise" : total.change < 0 ? "fall" : "";
    return tile(context, { id: by, title, by, value: element("span", { class: kind }, `${total.change > 0 ? "+" : ""}${format(total.change)}`),
      more: [element("div", { class: "quiet number" }, `${format(total.before)} → ${format(total.after)}`),
        total.estimate && element("div", { class: "quiet number" }, formatMargin(total.estimate, format))] });
  });
  const first = diff.verdict?.places?.[0];
  const estimated = (sampled || compared.sampled) && diff.verdict?.estimate?.low == null ? ", by estimates" : "";
  return [element("p", { class: "quiet" }, `Change from ${printable(compared.name)} to ${printable(name)}${estimated}`), element("div", { class: "tiles" }, tiles),
    first && element("button", { type: "button", class: "insight-line", id: "largest-change", onclick: () => context.openFunction(first, first.stack?.frames) },
      element("span", { class: "label" }, "Largest change"), element("span", { class: "number strong" }, `${first.change > 0 ? "+" : ""}${MEASURES[diff.verdict.by]?.format(first.change) ?? first.change}`),
      element("span", { class: "name" }, clipped(printable(first.function), 160)))];
}
