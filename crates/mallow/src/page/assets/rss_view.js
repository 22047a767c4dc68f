// The account of RSS: parts that add up to it, what would lower it, and who holds pages.

import { asker, isSuperseded } from "./data.js";
import { element, fill, message, nameText } from "./dom.js";
import { WHOLE_RUN } from "./histogram_view.js";
import { onColours, partColour } from "./palette.js";
import { RssMap } from "./rss_map.js";
import { causeWords, limitWords, momentWords, partTitle, releasedWords, remedyWords, usedWords } from "./rss_words.js";
import { hasRange, sharedChoices } from "./state.js";
import { Table } from "./table.js";
import { baseName, formatBytes, formatCount, formatShare, placeOf, printable } from "./units.js";

const PLACES_AT_MOST = 200;

export class RssView {
  constructor(context) {
    this.context = context;
    this.ask = asker();
    this.askMap = asker();
    this.map = new RssMap((place) => context.openFunction(place));
    this.mapBox = element("div", { id: "rss-map-box" });
    this.node = element("div", { class: "view", id: "rss-view" });
    onColours(() => this.node.isConnected && this.update());
  }

  async update() {
    try {
      const answer = await this.ask("rss", { limit: PLACES_AT_MOST, process: sharedChoices().process });
      fill(this.node, hasRange() && element("p", { class: "warning" }, WHOLE_RUN), this.content(answer));
      this.table?.set(answer.places ?? []);
      await this.updateMap();
    } catch (error) {
      if (!isSuperseded(error)) fill(this.node, message(error.message));
    }
  }

  content(answer) {
    const moment = momentWords(answer);
    const parts = [...(answer.parts ?? [])].sort((a, b) => b.bytes - a.bytes);
    const positive = parts.filter((part) => part.bytes > 0);
    const sum = positive.reduce((all, part) => all + part.bytes, 0) || 1;
    const colours = new Map(positive.map((part, at) => [part.part, partColour(at)]));
    const strip = element("div", { class: "strip", "aria-hidden": "true" }, positive.map((part) => element("i", {
      title: `${partTitle(part, answer)} ${formatBytes(part.bytes)}`, style: { width: `${(100 * part.bytes) / sum}%`, background: colours.get(part.part) },
    })));
    const rows = parts.filter((part) => part.bytes !== 0).map((part) => element("tr", { "data-part": part.part },
      element("td", {}, element("i", { class: "swatch", style: { background: colours.get(part.part) ?? "transparent" } })),
      element("th", { scope: "row" }, partTitle(part, answer)), element("td", { class: "number right" }, formatBytes(part.bytes)),
      element("td", { class: "number right quiet" }, formatShare(part.bytes, answer.rss)),
      element("td", { class: "over" }, part.largest ? [nameText(part.largest.function), " ", element("span", { class: "name quiet" }, placeOf(part.largest))] : part.mapping && part.part !== "stacks" && part.part !== "data" ? nameText(baseName(part.mapping)) : usedWords(part, answer))));
    return [this.cause(answer),
      element("p", { id: "rss-moment" }, element("b", {}, element("span", { class: "name" }, baseName(answer.executable)), ` (${answer.pid}), ${moment.peak}`), element("br"),
        `${moment.divided}. Allocator: ${printable(answer.allocator ?? "unknown")}.`),
      limitWords(answer).map((text) => element("p", { class: "quiet" }, text)),
      strip,
      element("table", { class: "parts" }, element("thead", {}, element("tr", {}, ["", "Part", "Bytes", "Share", "Largest"].map((t) => element("th", { scope: "col" }, t)))), element("tbody", {}, rows)),
      this.remedies(answer), this.mapBox, this.places(answer)];
  }

  // Pages are not in every recording: of those that have none, the account says so.
  async updateMap() {
    try {
      const map = await this.askMap("rss-map", { process: sharedChoices().process });
      if (map.rows.length === 0) return;
      fill(this.mapBox, element("h3", {}, "Pages of the heap"), this.map.node);
      this.map.show(map);
    } catch (error) {
      if (!isSuperseded(error)) fill(this.mapBox, element("p", { class: "quiet" }, error.message));
    }
  }

  remedies(answer) {
    if (!answer.remedies?.length) return null;
    return [element("h3", {}, "What would help"), element("ul", { class: "plain-list", id: "rss-remedies" }, answer.remedies.map((one) => {
      const { setting, text } = remedyWords(one, answer);
      const { size, certainty } = releasedWords(one);
      return element("li", {}, element("span", { class: "number strong" }, size), element("span", { class: "quiet" }, ` ${certainty} `),
        setting && element("code", {}, printable(setting)), text);
    }))];
  }

  // What to look at first, and the function.
  cause(answer) {
    const found = causeWords(answer);
    if (!found) return null;
    const open = found.place && (() => this.context.openFunction(found.place));
    return element("p", { id: "rss-cause" }, element("b", {}, answer.cause.of_divided ? "Cause, of what is divided: " : "Cause: "), found.before,
      found.place && [element("button", { type: "button", class: "link name", onclick: open }, printable(found.place.function).slice(0, 300)), " ", element("span", { class: "name quiet" }, placeOf(found.place)), found.text.startsWith(",") ? "" : " "], found.text);
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
