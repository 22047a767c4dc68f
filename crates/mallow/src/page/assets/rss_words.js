// The account of RSS in the words of `mallow rss`.

import { formatBytes, formatShare, placeOf, printable } from "./units.js";

const PARTS = {
  live: "live blocks", rounding: "rounding up of requests", holes: "holes between live blocks", holes_and_rounding: "holes and rounding", free_pages: "free pages",
  thread_caches: "caches of threads", older_or_free: "free, or older blocks", undivided: "allocators and mappings", never_touched: "of live, never touched", swapped: "of live, in swap",
  mappings: "mapped by the program", stacks: "stacks of threads", text: "code of files", data: "data of files", shared: "shared memory", kernel: "the kernel's", mallow: "Mallow's own", unsettled: "changed while read",
};
const REMEDIES = {
  malloc_trim: ": when the load is over", arena_max: ": threads share one arena", trim_threshold: ": gives the heap's end back", decay: ": gives free pages back",
};

export function partWords(part, allocator) {
  if (part === "allocator") return `${allocator ?? "the allocator"}'s ${allocator === "glibc" ? "headers" : "tables"}`;
  return PARTS[part] ?? printable(part).replaceAll("_", " ");
}

// What holds most of RSS, and why: the place, and the sentence about it.
export function causeWords(answer) {
  const { cause, allocator, rss } = answer;
  if (!cause) return null;
  const size = `${formatBytes(cause.bytes)}, ${formatShare(cause.bytes, rss)}`;
  const { place } = cause;
  if (!place) return { place: null, text: `${size}: ${partWords(cause.part, allocator)}${cause.mapping ? `; the largest is ${printable(cause.mapping)}` : ""}` };
  const much = formatBytes(place.bytes);
  const text = {
    live: `holds ${much} in live blocks; all have ${size} of RSS`, holes: `pins ${much} of holes between its blocks; all holes are ${size}`, holes_and_rounding: `pins ${much} of holes between its blocks; all holes are ${size}`,
    free_pages: `used ${much} and freed it; ${allocator ?? "the allocator"} keeps free pages, ${size}`,
  }[cause.part] ?? `has ${much} of ${partWords(cause.part, allocator)}, ${size}`;
  return { place, text };
}

// `setting` is typed as it stands; the rest explains.
export function remedyWords(one) {
  if (one.remedy === "other_allocator") return { setting: null, text: "another allocator: jemalloc, say, keeps equal sizes together" };
  if (one.remedy === "pool") {
    const [first, ...others] = one.places ?? [];
    const more = others.length > 0 ? ` and ${others.length} other place${others.length > 1 ? "s" : ""}` : "";
    return { setting: null, text: `a memory pool for blocks of ${first ? `${printable(first.function)} ${placeOf(first)}` : "these functions"}${more}` };
  }
  return { setting: one.setting, text: REMEDIES[one.remedy] ?? printable(one.remedy).replaceAll("_", " ") };
}
