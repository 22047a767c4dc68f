// What the overview knows of the whole run: leaks, insights, processes, threads.

import { ask, asker, isSuperseded } from "./data.js";
import { element, fill, message, nameText } from "./dom.js";
import { WHOLE_RUN } from "./histogram_view.js";
import { changeState, hasRange, sharedChoices, state } from "./state.js";
import { Table } from "./table.js";
import { baseName, formatBytes, formatCount, formatOf, formatShare, formatTime, MEASURES, placeOf, printable } from "./units.js";

const CAUSES_AT_MOST = 500;

class WholeRunView {
  constructor(context, id) {
    this.context = context;
    this.ask = asker();
    this.node = element("div", { class: "view", id: `${id}-view` });
  }

  async update() {
    try {
      const content = await this.load();
      fill(this.node, hasRange() && element("p", { class: "warning" }, WHOLE_RUN), content);
      this.after?.();
    } catch (error) {
      if (!isSuperseded(error)) fill(this.node, message(error.message));
    }
  }
}

const bytesColumn = (id, title, key, total, help) => ({
  id, title, help, numeric: true, width: 132, value: (row) => row[key] ?? 0, share: total ? (row) => (row[key] ?? 0) / total : null,
  node: (row) => element("span", { class: "over", title: formatCount(row[key]) }, formatBytes(row[key] ?? 0), total ? element("span", { class: "share" }, formatShare(row[key] ?? 0, total)) : null),
});
const countColumn = (id, title, key, help) => ({ id, title, help, numeric: true, width: 104, value: (row) => row[key] ?? 0, text: (row) => formatCount(row[key] ?? 0) });

export class LeakView extends WholeRunView {
  constructor(context) {
    super(context, "leaks");
  }

  async load() {
    const report = await this.ask("report", { limit: CAUSES_AT_MOST, ...sharedChoices() });
    const rows = report.leak_causes ?? [];
    const title = MEASURES.live.title;
    if (rows.length === 0) return message(`Nothing was ${title.toLowerCase()}.`);
    const { totals, not_scanned: notScanned } = report.sentences;
    const row = totals.find((one) => one.by === "live");
    const sentence = row && [`${title}: ${row.size}`, row.number && formatOf(row.number, "block"), row.remark].filter(Boolean).join("; ");
    const columns = [
      { id: "cause", title: "Call site", wide: 260, value: (row) => row.function, node: (row) => element("span", { class: "over" }, nameText(row.function), " ", element("span", { class: "name quiet" }, placeOf(row))) },
      bytesColumn("live_bytes", title, "live_bytes", report.live_bytes), countColumn("live", "Blocks", "live"), countColumn("sites", "Call paths", "sites"),
      { id: "age", title: "Oldest", help: "Age of the oldest block when its process, or the recording, ended", numeric: true, width: 96, value: (row) => row.oldest_ms, text: (row) => formatTime(row.oldest_ms) },
      { id: "youngest", title: "Youngest", help: "Age of the youngest block when its process, or the recording, ended", numeric: true, width: 96, value: (row) => row.youngest_ms, text: (row) => formatTime(row.youngest_ms) },
      { id: "pids", title: "Processes", width: 110, value: (row) => (row.pids ?? []).join(", "), text: (row) => (row.pids ?? []).join(", ") },
    ];
    const table = new Table({ id: "leaks-table", label: "Leaks", columns, sort: { column: "live_bytes", down: true }, open: (row) => this.context.openFunction(row, row.largest_site?.frames) });
    this.after = () => table.set(rows);
    const hidden = report.leak_causes_hidden && `${formatCount(report.leak_causes_hidden.rows)} smaller causes are not listed`;
    return [sentence && element("p", {}, sentence), notScanned && element("p", { class: "quiet" }, printable(notScanned)), table.node, hidden && element("p", { class: "quiet" }, hidden)];
  }
}

const EVIDENCE = { allocations: formatCount, freed_before_next: formatCount, smallest_bytes: formatBytes, largest_bytes: formatBytes, allocated_bytes: formatBytes, copied_bytes: formatBytes, peak_bytes: formatBytes };

export class InsightView extends WholeRunView {
  constructor(context) {
    super(context, "insights");
  }

  async load() {
    const report = await this.ask("report", { limit: 20, ...sharedChoices() });
    const { suggestions: said, small_suggestions: small, without_suggestions: without } = report.sentences;
    // Those that are worth a sentence come first.
    const insights = (report.insights ?? []).slice(0, said.length);
    const all = (report.insights_in_all ?? 0) - (report.small_in_all ?? 0);
    const cut = insights.length < all && `The largest ${insights.length} of ${formatCount(all)}; mallow report --all shows all`;
    const rest = [cut, small, without].filter(Boolean).map((text) => element("p", { class: "quiet" }, text));
    if (insights.length === 0) return [message("No costly pattern of allocation was found."), ...rest];
    const words = (key) => key.replaceAll("_", " ");
    return [element("ol", { class: "insights" }, insights.map((one, at) => element("li", { class: "insight", "data-kind": one.kind },
      element("div", { class: "row" }, element("span", { class: "figure number" }, said[at].saves),
        element("span", {}, element("b", {}, words(one.kind)), " in ", element("button", { type: "button", class: "link name", onclick: () => this.context.openFunction(one, one.largest_site?.frames) }, printable(one.function).slice(0, 300)),
          " ", element("span", { class: "name quiet" }, placeOf(one)))),
      element("p", {}, printable(said[at].text)),
      element("dl", { class: "facts" }, Object.entries(one.evidence ?? {}).filter(([, value]) => value !== null && typeof value !== "object").map(([key, value]) => [
        element("dt", {}, words(key)), element("dd", { class: "number" }, typeof value === "number" ? (EVIDENCE[key] ?? (key.endsWith("bytes") ? formatBytes : formatCount))(value) : printable(value))])),
      one.largest_site?.frames && element("button", { type: "button", class: "plain", onclick: () => this.context.openStack(one.function, one.largest_site.frames, `Largest of ${formatCount(one.sites)} call paths`) }, "Show the evidence")))), ...rest];
  }
}

export class ProcessView extends WholeRunView {
  constructor(context) {
    super(context, "processes");
  }

  async load() {
    const report = await ask("report", { limit: 20 });
    const rows = report.processes ?? [];
    if (rows.length === 0) return message("No process was recorded.");
    const columns = [
      { id: "pid", title: "PID", numeric: true, width: 84, value: (row) => row.pid, text: (row) => String(row.pid) },
      { id: "program", title: "Program", wide: 220, value: (row) => (row.arguments ?? []).join(" "), node: (row) => nameText(`${baseName(row.executable)} ${(row.arguments ?? []).slice(1).join(" ")}`, "name over") },
      countColumn("allocations", "Allocations", "allocations"), bytesColumn("allocated_bytes", "Allocated", "allocated_bytes", report.allocated_bytes),
      bytesColumn("own_peak_bytes", "Own peak", "own_peak_bytes", null, "The most live bytes of this process, at a moment of its own"), bytesColumn("live_bytes", MEASURES.live.title, "live_bytes", report.live_bytes),
      { id: "start", title: "Start", numeric: true, width: 90, value: (row) => row.start_ms, text: (row) => formatTime(row.start_ms) },
      { id: "end", title: "End", numeric: true, width: 90, value: (row) => row.end_ms, text: (row) => formatTime(row.end_ms) },
      { id: "threads", title: "Threads", numeric: true, width: 84, value: (row) => row.threads, text: (row) => formatCount(row.threads) },
    ];
    const table = new Table({ id: "processes-table", label: "Processes", columns, sort: { column: "allocated_bytes", down: true }, open: (row) => changeState({ process: String(row.pid) === state.process ? "" : String(row.pid) }) });
    this.after = () => table.set(rows);
    return [element("p", { class: "quiet" }, "A row shows that process alone in all views; the same row again shows all."), table.node];
  }
}

export class ThreadView extends WholeRunView {
  constructor(context) {
    super(context, "threads");
  }

  async load() {
    const answer = await this.ask("threads", sharedChoices());
    const columns = [
      { id: "tid", title: "Thread", numeric: true, width: 90, value: (row) => row.tid, text: (row) => String(row.tid) },
      { id: "name", title: "Name", wide: 200, value: (row) => row.name ?? baseName(row.program), node: (row) => element("span", { class: "over" }, nameText(row.name ?? baseName(row.program)), element("span", { class: "quiet number" }, ` of ${row.pid}`)) },
      countColumn("allocations", "Allocations", "allocations"), bytesColumn("allocated_bytes", "Allocated", "allocated_bytes", answer.allocated_bytes), bytesColumn("own_peak_bytes", "Own peak", "own_peak_bytes", null),
      countColumn("frees", "Frees", "frees"), countColumn("frees_of_others", "Of others", "frees_of_others", "Blocks of other threads that this thread freed"), countColumn("freed_by_others", "By others", "freed_by_others", "Blocks of this thread that others freed"),
    ];
    const table = new Table({ id: "threads-table", label: "Threads", columns, sort: { column: "allocated_bytes", down: true } });
    this.after = () => table.set(answer.threads ?? []);
    const handed = answer.handed_over > 0 && element("p", {}, `${formatOf(answer.handed_over, "block")}, ${formatBytes(answer.handed_over_bytes)}, freed by another thread than the one that allocated.`);
    return [handed, table.node];
  }
}
