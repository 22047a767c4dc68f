// The account of RSS in the words of `mallow rss`.

import { formatBytes, formatShare, formatTime, placeOf, printable } from "./units.js";

const PARTS = {
  live: "live blocks", rounding: "rounding up of requests", holes: "holes between live blocks", holes_and_rounding: "holes and rounding", free_pages: "free pages",
  thread_caches: "caches of threads", older_or_free: "free, or older blocks", undivided: "allocators and mappings", never_touched: "of live, never touched", swapped: "of live, in swap",
  pymalloc: "pymalloc's arenas", v8_heap: "V8's heap", java_heap: "the JVM's heap", go_heap: "Go's heap",
  mappings: "mapped by the program", stacks: "stacks of threads", text: "code of files", data: "data of files", shared: "shared memory", kernel: "the kernel's", mallow: "Mallow's own", unsettled: "changed while read",
};
const REMEDIES = {
  malloc_trim: ": at this moment", arena_max: ": threads share one arena", trim_threshold: ": gives the heap's end back, and large blocks", decay: ": gives free pages back",
  mmap_threshold: ": gives large freed blocks back, and the heap's end", background_thread: ": gives them back within 20 s, of an idle program as well",
  thread_caches: ": threads keep no freed blocks, and malloc takes more time",
  numpy_huge_pages: ": arrays take the pages that are touched",
};

// Of variables that glibc reads at its start: a call of the program's comes later.
const OF_MALLOPT = "; mallopt in the program has precedence";

// An allocator's name, and of several where it is.
export function ownerWords({ allocator, module }, answer) {
  const file = (answer.allocators ?? []).length > 1 && module ? module.split("/").pop().split(".")[0] : null;
  if (file && !file.startsWith(`lib${allocator}`)) return `${printable(allocator ?? "the allocator")} in ${printable(file)}`;
  return allocator ? printable(allocator) : null;
}

// A part, and of several allocators whose it is.
export function partTitle(part, answer) {
  const owner = ownerWords(part, answer);
  if (part.part === "allocator" && owner?.includes(" ")) return `tables of ${owner}`;
  if (part.part === "mappings") return mappedWords(answer);
  const words = partWords(part.part, owner);
  const isOnly = answer.parts.filter((one) => one.part === part.part).length === 1;
  const isMain = part.allocator === answer.allocator && isOnly && part.part !== "free_pages";
  return owner && part.part !== "allocator" && (answer.allocators ?? []).length > 1 && !isMain ? `${words}, ${owner}` : words;
}

// What a file has of the data of all.
function fileWords({ mapping, file_bytes: all, bss_bytes: bss }) {
  if (all === null || all === undefined) return mapping ? `; the largest is ${printable(mapping)}` : "";
  const isNearlyAll = formatBytes(bss) === formatBytes(all);
  const much = bss === all ? "all" : isNearlyAll ? "nearly all" : formatBytes(bss);
  const ofBss = bss === 0 ? "" : `, ${much} in its .bss (static variables)`;
  return `; ${printable(mapping)} has ${formatBytes(all)} of it${ofBss}`;
}

// Of CPython's pools, what is in use; of stacks, how many there are; of data, the file that has most.
export function usedWords(part, answer) {
  if (part.part === "data" && part.mapping) {
    const bss = part.bss_bytes > 0 ? `, ${formatBytes(part.bss_bytes)} .bss` : "";
    return `${printable(part.mapping.split("/").pop())} ${formatShare(part.file_bytes, Math.abs(part.bytes))}${bss}`;
  }
  if (part.part === "unsettled" && answer.unmapped_bytes > 0) return `${formatBytes(answer.unmapped_bytes)} of it unmapped meanwhile`;
  if (part.part === "pymalloc" && part.used_bytes !== null) return `${formatBytes(part.used_bytes)} of it in use`;
  const { stacks = 0, ended = 0, resident_bytes: resident, reserved_bytes: reserved } = answer.thread_stacks ?? {};
  if (part.part !== "stacks" || stacks + ended === 0) return "";
  const first = stacks || ended;
  const of = stacks === 0 ? " of ended threads" : "";
  const more = stacks > 0 && ended > 0 ? `, ${ended} more of ended threads` : "";
  return `${first} stack${first === 1 ? "" : "s"}${of} beside the first thread's${more}: ${formatBytes(resident)} of ${formatBytes(reserved)}`;
}

// Mappings without a live block: allocators other than glibc keep what is freed there.
function mappedWords(answer) {
  const keeps = (answer.allocators ?? []).map((row) => row.allocator).find((name) => name && name !== "glibc");
  const name = keeps ?? (answer.heap_is_blocked ? "glibc" : null);
  return name ? `${PARTS.mappings}, or by ${printable(name)}` : PARTS.mappings;
}

// The words of a key that has no text of its own.
const keyWords = (key) => printable(key).replaceAll("_", " ");

export function partWords(part, allocator) {
  if (part === "allocator") return `${allocator ?? "the allocator"}'s ${allocator === "glibc" ? "headers" : "tables"}`;
  return PARTS[part] ?? keyWords(part);
}

export const SINCE = { attached: "since mallow attached", forked: "since it forked", freed: "while it was recorded", unsampled: "while it was sampled" };

// What the figure is: of the process's whole life, or as far as the kernel was asked.
export function figureWords({ peak_unread_ms: unread }) {
  return unread === null || unread === undefined ? "the kernel's maximum" : `the kernel's maximum up to ${momentsWords(unread)} before the end`;
}

function momentsWords(ms) {
  return ms === 0 ? "less than 1 ms" : formatTime(ms);
}

// When the kernel's maximum was reached; a reading's time is another one.
function reachedWords({ peak_is_older: isOlder, peak_after_ms: after, peak_by_ms: by }) {
  if (isOlder) return ", reached before mallow attached";
  if (by === null || by === undefined) return ", reached at an unknown time";
  if (after === null || after === undefined) return `, reached by ${formatTime(by)}`;
  return formatTime(after) === formatTime(by) ? `, reached at ${formatTime(by)}` : `, reached between ${formatTime(after)} and ${formatTime(by)}`;
}

// How far a size that was read is below the kernel's maximum; null: the two are the same to the reader.
export function belowWords(rss, peak) {
  return peak <= rss || formatBytes(rss) === formatBytes(peak) ? null : `${formatShare(peak - rss, peak)} below it`;
}

// The kernel's own maximum, and the moment that is divided.
export function momentWords(answer) {
  const { rss, peak_rss: peak, ms, is_last: isLast, is_at_exit: isAtExit, live_bytes: live, older_blocks: older } = answer;
  const below = belowWords(rss, peak);
  const blocks = `live blocks${older ? ` allocated ${SINCE[older] ?? ""}` : ""}: ${formatBytes(live)} requested${older ? ", older ones are not known" : ""}`;
  return {
    peak: `highest RSS: ${formatBytes(peak)}, ${figureWords(answer)}${below ? reachedWords(answer) : ""}`,
    divided: `Divided: ${formatBytes(rss)} at ${formatTime(ms)}${isAtExit ? ", at exit, before libraries' destructors" : isLast ? ", the last reading" : ""}${below ? `, ${below}` : ""}; ${blocks}`,
  };
}

// What held before the moment of the account, and what was not read.
export function limitWords({ freed_before: freed, busier, kept, freed_after: end, undivided, limits, rss: divided, live_bytes: live, is_at_exit: isAtExit, ms, peak_unread_ms: unread, changed }) {
  const all = [...(changed ?? [])];
  if (freed) {
    const what = `In the ${formatTime(Math.max(1, ms - freed.ms))} before this moment, ${formatBytes(freed.freed_bytes)} of ${formatBytes(freed.live_bytes)} of live blocks were freed`;
    all.push(isAtExit ? `${what}: giving back what they left lowers RSS in that time alone.` : `${what}.`);
  }
  if (busier) {
    const more = `${formatBytes(busier.live_bytes)} were live, ${formatBytes(busier.live_bytes - live)} more than at this moment`;
    const rss = busier.rss === null ? "" : `RSS was ${formatBytes(busier.rss)} and `;
    const when = busier.ms === ms ? "Within the same millisecond" : `At ${formatTime(busier.ms)}`;
    all.push(`${when}, ${rss}${more}: memory that is free here may have been in use there; then giving it back lowers the highest RSS by less, or not at all.`);
  }
  if (kept) {
    const less = `${formatBytes(kept.live_bytes)} were live, ${formatBytes(live - kept.live_bytes)} less than at this moment`;
    all.push(`At ${formatTime(kept.ms)}, RSS was ${formatBytes(kept.rss)} and ${less}: the process keeps what these had. mallow rss --at end divides that.`);
  }
  if (end) {
    const less = `${formatBytes(end.live_bytes)} were live, ${formatBytes(live - end.live_bytes)} less`;
    all.push(`No memory was read between this moment and the end of the process at ${formatTime(end.ms)}, where ${less}.`);
  }
  if (undivided && (limits ?? []).includes("undivided")) all.push(undividedWords(undivided, divided));
  if (unread !== null && unread !== undefined) {
    all.push(`The kernel's maximum was read ${momentsWords(unread)} before the process's recording ended: it may have risen since.`);
  }
  return all;
}

// What the highest RSS had on top of the account's moment, and what of that the estimates have in them.
function undividedWords({ bytes, blocks }, rss) {
  const base = `The estimates are of the ${formatBytes(rss)} that are divided`;
  if (!blocks) return `${base}: what the ${formatBytes(bytes)} above them were is not known.`;
  const inHeaps = Math.min(blocks.heap_bytes + blocks.other_bytes, bytes);
  const heap = inHeaps > 0 ? `, and of up to ${formatBytes(inHeaps)} above them that blocks of ${formatTime(blocks.ms)} may have left in a heap` : "";
  const mapped = blocks.mapped_bytes > 0 ? `; ${formatBytes(blocks.mapped_bytes)} more were live at ${formatTime(blocks.ms)} in blocks with mappings of their own, which the kernel takes back with them` : "";
  return `${base}${heap}${mapped}.`;
}

// What holds most of RSS, and why: the place, and the sentence about it, with what comes before the place.
export function causeWords(answer) {
  const { cause, rss, older_blocks: older } = answer;
  if (!cause) return null;
  const allocator = ownerWords(cause, answer);
  const isPart = cause.bytes <= rss;
  const size = isPart ? `${formatBytes(cause.bytes)}, ${formatShare(cause.bytes, rss)}` : formatBytes(cause.bytes);
  const { place } = cause;
  if (!place) {
    const words = cause.part === "mappings" ? mappedWords(answer) : partWords(cause.part, allocator);
    const whose = cause.part === "unsettled" ? ", and whose it was is not known" : "";
    return { place: null, text: `${size}: ${words}${whose}${fileWords(cause)}` };
  }
  const much = formatBytes(place.bytes);
  const text = {
    live: `holds ${much} of what live blocks${older ? ` allocated ${SINCE[older] ?? ""}` : ""} have in memory: ${size}${isPart ? " of RSS" : ""}`, holes: `pins ${much} of holes between its blocks; all holes are ${size}`, holes_and_rounding: `pins ${much} of holes between its blocks; all holes are ${size}`,
    free_pages: `, ${much}`,
  }[cause.part] ?? `has ${much} of ${partWords(cause.part, allocator)}, ${size}`;
  // It allocated them, and others may free; nor need they be what lies in these pages.
  const before = cause.part === "free_pages" ? `${allocator ?? "the allocator"} keeps free pages, ${size}; since the peak, most was freed of ` : "";
  return { place, before, text: `${text}${heaviestWords(cause)}` };
}

// Whose blocks take most memory, where that is another place than the one with most requested bytes.
function heaviestWords({ heaviest }) {
  if (!heaviest) return "";
  return `; ${printable(heaviest.function)} ${placeOf(heaviest)} takes most memory, ${formatBytes(heaviest.bytes)} with rounding and headers`;
}

const hasOwn = (one) => one.own_bytes !== null && one.own_bytes !== undefined;

// What a remedy releases: of a bound on more than is free at this moment, what is.
export function releasedWords(one) {
  const least = one.least_bytes > 0 && one.least_bytes < 0.9 * one.expected_bytes ? `, at least ${formatBytes(one.least_bytes)}` : "";
  const certainty = hasOwn(one) ? "at most now" : keyWords(one.certainty);
  return { size: `-${formatBytes(hasOwn(one) ? one.own_bytes : one.expected_bytes)}`, certainty: `${certainty}${least}` };
}

// `setting` is typed as it stands; the rest explains.
export function remedyWords(one, answer) {
  if (one.remedy === "thread_stacks") {
    const stacks = answer?.thread_stacks?.stacks ?? 0;
    return { setting: one.setting, text: `${one.setting ? "" : "stacks of 256 kB"}: ${stacks} stack${stacks === 1 ? "" : "s"} of threads are locked in memory as a whole` };
  }
  if (one.remedy === "other_allocator") return { setting: null, text: "another allocator: jemalloc, say; this is all that glibc has beside live blocks" };
  if (one.remedy === "pool") {
    const [first, ...others] = one.places ?? [];
    const more = others.length > 0 ? ` and ${others.length} other place${others.length > 1 ? "s" : ""}` : "";
    // They left the holes themselves, and would in a pool.
    const condition = one.own_holes ? ", if it keeps together what is freed together" : "";
    // The pages that such a pool empties are free pages of glibc's.
    const owners = answer?.allocators ?? [];
    const trim = owners.length > 0 && owners.every((row) => row.allocator === "glibc") ? ", then malloc_trim(0)" : "";
    return { setting: null, text: `a memory pool for blocks of ${first ? `${printable(first.function)} ${placeOf(first)}` : "these functions"}${more}${condition}${trim}` };
  }
  if (one.remedy === "arena_max") {
    const need = one.certainty === "at_most" ? ", which may need more" : "";
    return { setting: one.setting, text: `${REMEDIES.arena_max}${need}${OF_MALLOPT}` };
  }
  const moved = hasOwn(one) ? `; with what would lie elsewhere, at most ${formatBytes(one.expected_bytes)}` : "";
  const mallopt = ["trim_threshold", "mmap_threshold"].includes(one.remedy) ? OF_MALLOPT : "";
  return { setting: one.setting, text: `${REMEDIES[one.remedy] ?? keyWords(one.remedy)}${moved}${mallopt}` };
}
