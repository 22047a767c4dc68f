// The account of RSS: parts that add up to it, what would lower it, and who holds pages.

import { asker, isSuperseded } from "./data.js";
import { element, fill, message, nameText } from "./dom.js";
import { WHOLE_RUN } from "./histogram_view.js";
import { onColours, partColour } from "./palette.js";
import { hasRange, sharedChoices } from "./state.js";
import { Table } from "./table.js";
import { baseName, formatBytes, formatCount, formatShare, formatTime, placeOf, printable } from "./units.js";

const PLACES_AT_MOST = 200;

// The words of the document, as a reader says them.
const words = (key) => printable(String(key)).replaceAll("_", " ");

export class RssView {
  constructor(context) {
    this.context = context;
    this.ask = asker();
    this.node = element("div", { class: "view", id: "rss-view" });
    onColours(() => this.node.isConnected && this.update());
  }

  async update() {
    try {
      const answer = await this.ask("rss", { limit: PLACES_AT_MOST, process: sharedChoices().process });
      fill(this.node, hasRange() && element("p", { class: "warning" }, WHOLE_RUN), this.content(answer));
      this.table?.set(answer.places ?? []);
    } catch (error) {
      if (!isSuperseded(error)) fill(this.node, message(error.message));
    }
  }

  content(answer) {
    const parts = [...(answer.parts ?? [])].sort((a, b) => b.bytes - a.bytes);
    const positive = parts.filter((part) => part.bytes > 0);
    const sum = positive.reduce((all, part) => all + part.bytes, 0) || 1;
    const colours = new Map(positive.map((part, at) => [part.part, partColour(at)]));
    const strip = element("div", { class: "strip", "aria-hidden": "true" }, positive.map((part) => element("i", {
      title: `${words(part.part)} ${formatBytes(part.bytes)}`, style: { width: `${(100 * part.bytes) / sum}%`, background: colours.get(part.part) },
    })));
    const rows = parts.filter((part) => part.bytes !== 0).map((part) => element("tr", { "data-part": part.part },
      element("td", {}, element("i", { class: "swatch", style: { background: colours.get(part.part) ?? "transparent" } })),
      element("th", { scope: "row" }, words(part.part)), element("td", { class: "number right" }, formatBytes(part.bytes)),
      element("td", { class: "number right quiet" }, formatShare(part.bytes, answer.rss)),
      element("td", { class: "over" }, part.largest ? [nameText(part.largest.function), " ", element("span", { class: "name quiet" }, placeOf(part.largest))] : part.mapping ? nameText(baseName(part.mapping)) : "")));
    return [
      element("p", {}, `${formatBytes(answer.rss)} in memory at ${formatTime(answer.ms)} of pid ${answer.pid} `, element("span", { class: "name quiet" }, baseName(answer.executable)),
        `; ${formatBytes(answer.live_bytes)} in ${formatCount(answer.live)} live blocks. Allocator: ${printable(answer.allocator ?? "unknown")}.`),
      strip,
      element("table", { class: "parts" }, element("thead", {}, element("tr", {}, ["", "Part", "Bytes", "Share", "Largest"].map((t) => element("th", { scope: "col" }, t)))), element("tbody", {}, rows)),
      this.remedies(answer), this.places(answer)];
  }

  remedies(answer) {
    if (!answer.remedies?.length) return null;
    return [element("h3", {}, "What would lower it"), element("ul", { class: "plain-list" }, answer.remedies.map((one) => element("li", {},
      element("span", { class: "number strong" }, formatBytes(one.expected_bytes)), " ", words(one.remedy), one.setting && [": ", element("code", {}, printable(one.setting))],
      element("span", { class: "quiet" }, ` (${words(one.certainty)})`))))];
  }

  places(answer) {
    if (!answer.places?.length) return null;
    const bytes = (id, title, help) => ({ id, title, help, numeric: true, width: 112, value: (row) => row[id] ?? 0, text: (row) => formatBytes(row[id] ?? 0) });
    this.table = new Table({ id: "rss-table", label: "Places that hold pages", sort: { column: "resident_bytes", down: true }, open: (row) => this.context.openFunction(row, row.largest_site?.frames), columns: [
      { id: "function", title: "Call site", wide: 240, value: (row) => row.function, node: (row) => element("span", { class: "over" }, nameText(row.function), " ", element("span", { class: "name quiet" }, placeOf(row))) },
      bytes("live_bytes", "Live"), bytes("resident_bytes", "In memory"), bytes("rounding_bytes", "Rounding", "Usable size minus requested bytes"), bytes("holes_bytes", "Holes", "Free bytes in the pages that its blocks pin"),
      { id: "pinned_pages", title: "Pages", numeric: true, width: 84, value: (row) => row.pinned_pages ?? 0, text: (row) => formatCount(row.pinned_pages ?? 0) }] });
    return [element("h3", {}, "Places that hold pages"), this.table.node];
  }
}
