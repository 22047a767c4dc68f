// Views of a process that is watched: places that are live or grow, and what its RSS consists of.

import { element, fill, message, nameText } from "./dom.js";
import { latestLook } from "./live_panel.js";
import { onColours, partColour } from "./palette.js";
import { Table } from "./table.js";
import { formatBytes, formatCount, formatShare, formatTime, placeOf, printable } from "./units.js";

const VERDICTS = {
  growing: "grows significantly", so_far: "grows so far", slowing: "slowing down, or pausing", uneven: "uneven", undecided: "undecided", shrinking: "shrinking", steady: "steady", unknown: "too early",
};
const RANK = Object.keys(VERDICTS);

export class LivePlaceView {
  constructor(context) {
    const rank = (row) => -RANK.indexOf(row.growth.verdict);
    const rate = (row) => (["growing", "so_far"].includes(row.growth.verdict) ? row.growth.bytes_per_hour : null);
    this.table = new Table({ id: "places-table", label: "Places", sort: { column: "live", down: true }, open: (row) => row.function && context.openFunction(row, row.largest_site?.frames), columns: [
      { id: "function", title: "Call site", wide: 260, value: (row) => row.function ?? "", node: (row) => element("span", { class: "over" }, nameText(row.function ?? "(no stack is known)"), " ", element("span", { class: "name quiet" }, row.function ? placeOf(row) + (row.by ? `, by ${printable(row.by)}` : "") : "")) },
      { id: "live", title: "Live", numeric: true, width: 176, help: "Bytes that are live now, with the interval that holds the truth 95 times in 100", value: (row) => row.live_bytes.value, share: (row) => row.live_bytes.value / (this.total || 1), node: (row) => element("span", { class: "over" }, row.words.live_bytes) },
      { id: "growth", title: "Growth", width: 150, help: "What is said of its growth so far", value: rank, text: (row) => VERDICTS[row.growth.verdict] ?? row.growth.verdict },
      { id: "rate", title: "An hour", numeric: true, width: 176, value: (row) => rate(row)?.value ?? null, text: (row) => row.words.bytes_per_hour ?? "" },
      { id: "oldest", title: "Oldest", numeric: true, width: 96, help: "Age of the oldest sample", value: (row) => row.oldest_ms, text: (row) => formatTime(row.oldest_ms) },
      { id: "samples", title: "Samples", numeric: true, width: 84, value: (row) => row.samples, text: (row) => formatCount(row.samples) },
    ] });
    this.node = element("div", { class: "view", id: "places-view" });
  }

  async update() {
    const look = latestLook();
    if (!look) return;
    const { report, words } = look;
    this.total = report.live_bytes.value;
    if (report.places.length === 0) fill(this.node, message("No sample is live yet."));
    else {
      if (this.table.node.parentNode !== this.node) fill(this.node, this.table.node);
      this.table.set(report.places.map((place, at) => ({ ...place, words: words.places[at] })));
    }
  }
}

const PARTS = { live_heap: "live heap", other_anonymous: "free or mapped by the program", anonymous: "heap or mapped by the program", stacks: "stacks", files: "files", shared: "shared memory", mallow: "Mallow's own" };

export class LiveMemoryView {
  constructor() {
    this.node = element("div", { class: "view", id: "memory-view" });
    onColours(() => this.node.isConnected && this.update());
  }

  async update() {
    const { report, sentences } = latestLook() ?? {};
    const memory = report?.memory;
    if (!memory) {
      fill(this.node, message("The memory of the process cannot be read."));
      return;
    }
    const parts = memory.parts.map((part, at) => ({ ...part, amount: sentences.parts[at] })).sort((a, b) => b.bytes - a.bytes);
    const sum = parts.reduce((all, part) => all + part.bytes, 0) || 1;
    const signed = (bytes) => `${bytes > 0 ? "+" : ""}${formatBytes(bytes)}`;
    fill(this.node,
      element("p", {}, `RSS is ${formatBytes(memory.rss)}; PSS ${formatBytes(memory.pss)}`, memory.swap > 0 && `, and ${formatBytes(memory.swap)} in swap`, `; ${sentences.heap}.`),
      element("div", { class: "strip", "aria-hidden": "true" }, parts.map((part, at) => element("i", { title: PARTS[part.part], style: { width: `${(100 * part.bytes) / sum}%`, background: partColour(at) } }))),
      element("table", { class: "parts", id: "memory-table" }, element("thead", {}, element("tr", {}, ["", "Part", "Bytes", "Share", "Since the watching began"].map((t) => element("th", { scope: "col" }, t)))),
        element("tbody", {}, parts.map((part, at) => element("tr", { "data-part": part.part, class: part.part === memory.grows ? "strong" : null },
          element("td", {}, element("i", { class: "swatch", style: { background: partColour(at) } })), element("th", { scope: "row" }, PARTS[part.part] ?? part.part),
          element("td", { class: "number right" }, part.amount), element("td", { class: "number right quiet" }, formatShare(part.bytes, memory.rss)),
          element("td", { class: "number right" }, signed(part.grown_bytes)))))),
      element("p", { class: "quiet" }, "Sampling does not see pages: which functions keep them, mallow rss shows of a recording."));
  }
}
