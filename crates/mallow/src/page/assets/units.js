// Numbers and names as text, in the forms of the command line.

const PREFIXES = ["B", "kB", "MB", "GB", "TB", "PB"];

// Three digits that count: 549 kB, 4.05 MB.
function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let value = bytes;
  let at = 0;
  while (Math.abs(value) >= 999.5 && at < PREFIXES.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 ? formatCount(value) : threeDigits(value)} ${PREFIXES[at]}`;
}

export function formatCount(count) {
  if (count === null || count === undefined) return "–";
  return Math.round(count).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// A count with its noun: "1 block". `count` may be written already.
export function formatOf(count, noun) {
  const text = typeof count === "number" ? formatCount(count) : String(count);
  return `${text} ${noun}${text === "1" ? "" : "s"}`;
}

// As the terminal has it: 0 % and 100 % are said of nothing and of all alone. A tie is rounded to even, as Rust does; of
// ties to one digit, a binary fraction has .25 and .75, and .75 is .8 either way.
export function formatShare(part, whole) {
  if (!whole) return "–";
  if (!part) return "0 %";
  const share = Math.abs((100 * part) / whole);
  const sign = part < 0 ? "-" : "";
  if (share < 0.05) return `${sign}<0.1 %`;
  const text = `${share % 1 === 0.25 ? `${Math.floor(share)}.2` : share.toFixed(1)} %`;
  return `${sign}${text === "100.0 %" && share < 100 ? ">99.9 %" : text}`;
}

export function formatTime(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// Two times; one where both are the same to a reader.
export function formatRange(from, to) {
  return formatTime(from) === formatTime(to) ? formatTime(from) : `${formatTime(from)} to ${formatTime(to)}`;
}

// Of each measure: its name, its keys in the documents, and how its numbers are written.
export const MEASURES = {
  bytes: { title: "Allocated bytes", key: "allocated_bytes", count: "allocations", format: formatBytes },
  allocations: { title: "Allocations", key: "allocations", count: "allocations", format: formatCount },
  peak: { title: "Live at peak", key: "peak_bytes", count: "peak", format: formatBytes },
  live: { title: "Live at end", key: "live_bytes", count: "live", format: formatBytes },
  temporary: { title: "Temporary", key: "temporary", count: "temporary", format: formatCount },
};

// The margin of a change of estimates, in the terminal's words.
export function formatMargin(estimate, format) {
  if (!estimate) return "";
  const { value, low, high } = estimate;
  if (low === null || high === null) return "too few";
  const ends = `${format(low)} to ${format(high)}`;
  if (low < high && low <= 0 && high >= 0) return `${ends}, not significant`;
  const [below, above] = [value - low, high - value];
  if (below + above === 0) return "";
  const share = (below + above) / 2 / Math.abs(value);
  const even = Math.abs(above - below) <= 0.2 * (above + below) && share < 0.5;
  return even ? `±${Math.max(1, Math.round(100 * share))} %` : ends;
}

// Control characters would break lines, and marks of direction would turn names around: both are shown as escapes.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function printable(text) {
  return String(text).replace(UNSEEN, (mark) => `\\u{${mark.codePointAt(0).toString(16)}}`);
}

// The beginning of a long text.
export function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function baseName(path) {
  return path ? printable(path.slice(path.lastIndexOf("/") + 1)) : "";
}

// The place of a frame: file and line where they are known, else its module.
export function placeOf(frame) {
  if (frame.file && frame.line) return `${baseName(frame.file)}:${frame.line}`;
  if (frame.file) return baseName(frame.file);
  return frame.module ? `[${baseName(frame.module)}]` : "";
}

// The command line's regexes are those of Rust's `regex` crate.
export function escapeRegex(text) {
  return text.replace(/[\\.+*?()|[\]{}^$#&\-~]/g, "\\$&");
}
