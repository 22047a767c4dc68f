// Histograms of sizes and lifetimes: bars of a table, so that they are read aloud as they are seen.

import { asker, isSuperseded } from "./data.js";
import { element, fill, message } from "./dom.js";
import { hasRange, sharedChoices } from "./state.js";
import { formatBytes, formatCount, formatOf, formatShare, formatTime } from "./units.js";

export const WHOLE_RUN = "These numbers are of the whole run: a chosen range does not change them.";

// Buckets of one histogram, named `from`. rows: [{ label, blocks, bytes }]. Shares are of `all` blocks, those live among them.
function bars(title, note, from, rows, all) {
  if (rows.length === 0) return null;
  const most = { blocks: Math.max(...rows.map((row) => row.blocks)), bytes: Math.max(...rows.map((row) => row.bytes)) };
  const cell = (row, key, format) => [
    element("td", { class: "number right", title: formatCount(row[key]) }, format(row[key])),
    element("td", { class: "number right quiet narrow-hidden" }, formatShare(row[key], all[key])),
    element("td", { class: "bar-cell" }, element("i", { class: key === "blocks" ? "bar-fill" : "bar-fill second", style: { width: `${(100 * row[key]) / (most[key] || 1)}%` } }))];
  return [element("h3", {}, title), note && element("p", { class: "quiet" }, note), element("table", { class: "histogram" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, from), element("th", { scope: "colgroup", colspan: "3" }, "Blocks"), element("th", { scope: "colgroup", colspan: "3" }, "Bytes"))),
    element("tbody", {}, rows.map((row) => element("tr", {}, element("th", { scope: "row", class: "number" }, row.label), cell(row, "blocks", formatCount), cell(row, "bytes", formatBytes)))))];
}

// Buckets end before `to`. Their labels are those of the terminal: sizes and times as --size and --lifetime read them.
function binary(size) {
  const [bytes, unit] = [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"]].find(([least]) => size >= least && size % least === 0) ?? [1, ""];
  return `${size / bytes}${unit}`;
}
const sizeLabel = ({ from, to }) => (to === from + 1 ? `${from}` : `${binary(from)}..${to === null ? "" : binary(to)}`);
const timeLabel = ({ from, to }) => `${from === 0 ? "" : `${from}ms`}..${to === null ? "" : `${to}ms`}`;
function countLabel({ from, to }) {
  if (to === null) return `${formatCount(from)} and more`;
  return to === from + 1 ? formatCount(from) : `${formatCount(from)} to ${formatCount(to - 1)}`;
}

const allOf = (answer) => ({ blocks: answer.allocations, bytes: answer.allocated_bytes });

class HistogramView {
  constructor(view) {
    this.view = view;
    this.ask = asker();
    this.node = element("div", { class: "view", id: `${view}-view` });
  }

  async update() {
    try {
      const answer = await this.ask(this.view, sharedChoices());
      fill(this.node, hasRange() && element("p", { class: "warning" }, WHOLE_RUN), this.content(answer));
    } catch (error) {
      if (!isSuperseded(error)) fill(this.node, message(error.message));
    }
  }
}

export class SizeView extends HistogramView {
  constructor() {
    super("sizes");
  }

  content(answer) {
    const rows = answer.buckets.map((b) => ({ label: sizeLabel(b), blocks: b.blocks, bytes: b.bytes }));
    const note = `${formatOf(answer.allocations, "allocation")}, ${formatBytes(answer.allocated_bytes)}`;
    return rows.length === 0 ? message("No blocks.") : bars("Sizes of blocks", note, "Bytes", rows, allOf(answer));
  }
}

// Whether they are freed later, nobody knows where the process went on.
const LIVE = { end: "Live at the end", detached: "Live at the end of the recording", snapshot: "Live" };

export class LifetimeView extends HistogramView {
  constructor(context) {
    super("lifetimes");
    this.about = context.about;
  }

  content(answer) {
    const rows = (list, label) => (list ?? []).map((b) => ({ label: label(b), blocks: b.blocks, bytes: b.bytes }));
    const waits = answer.table_wait_ms > 0 ? ` Up to ${formatTime(answer.table_wait_ms)} of a lifetime may be waits for Mallow's unwind tables.` : "";
    const found = [
      bars("Lifetimes in time", `From the allocation to the free; blocks that were live at the end are in no row.${waits}`, "Time", rows(answer.by_ms, timeLabel), allOf(answer)),
      bars("Lifetimes in allocations", "Allocations of all threads between a block's allocation and its free.", "Allocations", rows(answer.by_allocations, countLabel), allOf(answer))];
    const live = answer.live > 0 && element("p", { class: "quiet" }, `${LIVE[this.about.live_moment]}: ${formatOf(answer.live, "block")}, ${formatBytes(answer.live_bytes)}.`);
    return found.some(Boolean) ? [found, live] : [message("No block was freed."), live];
  }
}
