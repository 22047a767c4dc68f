"""The sentences of Mallow's views, as rules (statements.py). A sentence that none reads is listed as unread."""

MALLOWS = r"(?:; {bytes:mallow_bytes} of (?:it|that) Mallow's own)?"
LIVE_HEAP = (
    r"(?:; {bytes:highest_in_memory} of (?:it|that) live heap(?:, {share:highest_live_share}| (?:since|while) .+?, older blocks are not known)"
    r"(?:; {bytes:highest_absent} more of live heap not in memory)?"
    r"|; live heap(?: since .+?| while .+?)? was {bytes:highest_live_bytes}, (?:not all of it in memory|how much of it in memory is not known)"
    r"(?:, older blocks are not known)?)?" + MALLOWS
)
LIVE = r"(?:live at end|live) {count:live} {bytes:live_bytes}(?: of the recording;?| when the profile was taken;?)?"
OWN = r"(?:;? {bytes:pool_bytes} of it libstdc\+\+'s own, no leak)?"
KEPT_BY = r"(?:;? {bytes:kept_bytes} of it kept by [^;]+, (?:no leak|not judged))?"
HEAVIEST = r"(?:; .+ takes most memory, {bytes:heaviest_bytes} with rounding and headers)?"
UNREAD = r" up to (?:{span:peak_unread_ms}|less than 1 ms) before the end"
LARGEST = r"(?: \(the largest {count:shown} of {count:%s}\))?"

REPORT = [
    r"ran {span:ran_ms}(?: from {span:run_begin_ms} on)?(?:, of it {span:table_wait_ms} waiting for Mallow's unwind tables)?(?:, waited {span:exit_wait_ms} for mallow at its exit)?(?:, other processes {span:other_waits_ms} in all at theirs)?(?:, its processes waited {span:other_waits_ms} in all for mallow at their exits)?, exit status {count:exit_status}(?: \(signal {count:signal}\))?"
    r"; {count:processes} process(?:es)?(?: in {count:images} images \(exec\))?, {count:threads} threads? used malloc(?:; --all shows more)?",
    r"allocations {count:allocations} {bytes:allocated_bytes}(?: {rate:rate})?(?:; {words:families})?",
    r"frees {count:frees} {bytes:freed_bytes}"
    r"(?: {count:foreign_frees} more of blocks that were not recorded;?)?"
    r"(?: reallocs: {count:reallocs_in_place} in place, {count:reallocs_moved} moved)?",
    r"temporary {count:temporary} {bytes:temporary_bytes}(?: {share:temporary_share} of allocations)?",
    r"live at peak {count:peak} {bytes:peak_bytes}(?: at {span:peak_ms}, {share:peak_when} of the recording)?",
    LIVE + OWN,
    LIVE + r" none lost(?:, {bytes:unscanned_bytes} not scanned)?" + OWN,
    LIVE + r" {bytes:lost_bytes} of it lost(?:, {bytes:unscanned_bytes} not scanned)?" + OWN,
    LIVE + r" not scanned for lost blocks" + OWN,
    LIVE
    + r"(?: none lost(?: of what was scanned)?| {bytes:lost_bytes} of it lost)?"
    r"(?:,? {bytes:unscanned_bytes} not scanned for lost blocks| not scanned for lost blocks)?"
    r"(?:,? {bytes:live_at_exec_bytes} given back by exec| all given back by exec)?"
    + OWN
    + KEPT_BY * 4,
    r"{count:small_suggestions} suggestions? (?:each save|saves) less than 1 % of the run's CPU time",
    r"No suggestions for {count:interpreted_allocations} allocations? by scripts and interpreters",
    r"highest RSS {bytes:highest_rss} (?:by {span:peak_by_ms}, and still )?at {span:highest_ms}(?: of pid {count:highest_pid})?(?:, the highest" + UNREAD + r")?(?:; {bytes:swap} more in swap)?"
    + LIVE_HEAP,
    r"highest RSS {bytes:highest_rss} the kernel's maximum(?: of pid {count:highest_pid})?(?:" + UNREAD + r")?(?:, reached before mallow attached)?"
    r"; {bytes:read_rss} at {span:highest_ms}, {share:below_share} below it(?:; {bytes:swap} more in swap)?"
    + LIVE_HEAP,
    r"live then(?: {count:highest_live})? {bytes:highest_live_bytes} (?:allocated .+?; )?"
    r"(?:(?:{bytes:highest_in_memory} of it in memory, )?{share:highest_live_share} of RSS then|{bytes:highest_in_memory} of it in memory|not all of it in memory"
    r"|how much of it in memory is not known)(?:; older blocks are not known)?",
]

KEEPS = r"{bytes:kept_bytes}(?: of such blocks)? that .+ keeps? (?:by design|\(not judged\))"
BESIDE = r", {share:place_share} from .+?(?:, beside " + KEEPS + r")?"

VERDICT = {
    "lost": r"{bytes:bytes} lost" + BESIDE,
    "at_peak": r"{bytes:bytes} at the peak(?: \(at most {bytes:in_memory_bytes} of it in memory\))?(?:, {share:program_share} in .+?)?"
    r", {share:place_share} from .+",
    "reachable": r"{bytes:bytes} still reachable at the end" + BESIDE,
    "live_last": r"{bytes:bytes} live(?: at the end(?: of the recording| \(not scanned for lost blocks\))?)?" + BESIDE,
    "not_scanned": r"{bytes:bytes} live at the end were not scanned for lost blocks",
    "none_lost": r"no block was lost(?: but " + KEEPS + r")?",
    "kept": r"nothing was live(?: at the end(?: of the recording)?)? but " + KEEPS,
    "nothing_live": r"nothing was live(?: at the end(?: of the recording)?)?",
    "nothing_allocated": r"nothing was allocated",
    "peak_saving": r"up to {share:of_whole} of the peak can be saved in .+",
    "time_saving": r"(?:malloc takes (?:at most {share:most}|at least {share:least})"
    r" of the run's CPU time, )?about {share:of_whole} of (?:that|malloc's time) can be saved in .+",
    "allocated": r"(?:{bytes:total} allocated|{count:total} allocations?), {share:place_share} from .+",
}
"""Statements of the verdict, by their kind in the JSON."""

LISTS = {
    "Most bytes live at the peak": "peak",
    "Most allocations": "allocations",
    "Most allocated bytes": "bytes",
    "Most temporary allocations": "temporary",
    "Most bytes live at the end": "live",
}
"""Headings of places, and the list of the JSON that follows."""

CAUSES = [
    r"Lost, by cause: {bytes:lost_bytes} in {count:lost_blocks} blocks?" + LARGEST % "lost_causes",
    r"(?:Still reachable|Live|Live at the end), by cause: {bytes:leak_bytes} in {count:leak_blocks} blocks?"
    + LARGEST % "leak_causes_in_all",
]

PLACE = (
    r"{share:share} (?:{bytes:amount}|{count:amount})(?: (?:{count:times} times|once)(?:, {count:held} held)?)?"
    r" (?![0-9,.]+ [kMG]?B\b).+"
)

INSIGHT = r"(?:{share:malloc_share} of malloc's time|up to {share:peak_share} of the peak) .+"

LEAKS = [
    r"{bytes:reported_bytes} in {count:reported} blocks? live (?:at the end(?: of the recording)?|when the profile was taken)"
    + LARGEST % "leak_causes_in_all",
    r"and {count:rest} (?:leak|cause)s? more, {bytes:rest_bytes} in {count:rest_blocks} blocks?; --limit 0 shows all",
    r"Lost or reachable is not known of {bytes:unscanned_bytes} in {count:unscanned_blocks} blocks?: process(?:es)? .+",
    r"(?:In addition, )?{bytes:reachable_bytes} in {count:reachable_blocks} blocks? still reachable at the end"
    r"; --only reachable shows them",
    r"{bytes:lost_bytes} in {count:lost_blocks} blocks? lost: no pointer to them was found" + LARGEST % "lost_causes",
]
LEAK_LINE = r"^\S+ [kMG]?B(?:, [^:]+)?: one (?:leak|cause)"
POOL = (
    r"No leak: {bytes:pool_bytes} in {count:pool_blocks} blocks?"
    r" that libstdc\+\+ keeps for exceptions when memory is scarce"
)
KEPT = (
    r"(?:No leak|Not judged): {bytes:kept_bytes} in {count:kept_blocks} blocks? that .+ keeps to its end"
    r" (?:by design|with all that its script keeps or leaks there)"
    r"; --suppressed shows them"
)
EXEC = (
    r"No leak: {bytes:live_at_exec_bytes} in {count:live_at_exec_blocks} blocks? live when processes called exec"
    r", which gives back all memory; --only exec shows them"
)
LEAK = (
    r"{bytes:amount}(?:, {share:share})?: one (?:leak|cause)(?:, (?:{count:times} times|once))?"
    r"(?:, with {count:held} blocks? that it holds)?"
    r"; allocated (?:{span:oldest}|{span:oldest} to {span:youngest}) before the end"
    r"(?:; {count:sites} call paths, the largest)?:?"
)

RSS = [
    r"{word:name} \({count:pid}\), highest RSS: {bytes:peak_rss}, the kernel's maximum(?:" + UNREAD + r")?(?:, reached before mallow attached"
    r"|, reached at an unknown time|, reached by {span:peak_by_ms}|, reached at {span:peak_by_ms}"
    r"|, reached between {span:peak_after_ms} and {span:peak_by_ms})?",
    r"Divided: {bytes:rss} at {span:ms}(?:, at exit, before libraries' destructors|, the last reading)?(?:, {share:below_share} below it)?; live blocks(?: allocated .+)?: {bytes:live_bytes} requested"
    r"(?:, older ones are not known)?",
    r"In the {span:freed_ms} before this moment, {bytes:freed_bytes} of {bytes:freed_of_bytes} of live blocks were freed"
    r"(?:: giving back what they left lowers RSS in that time alone)?\.",
    r"(?:At {span:busier_ms}|Within the same millisecond), (?:RSS was {bytes:busier_rss} and )?{bytes:busier_bytes} were live, {bytes:busier_more} more than at this moment: memory"
    r" that is free here may have been in use there; then giving it back lowers the highest RSS by less, or not at all\.",
    r"The estimates are of the {bytes:rss} that are divided: what the {bytes:undivided} above them were is not known\.",
    r"The estimates are of the {bytes:rss} that are divided"
    r"(?:, and of up to {bytes:undivided_heap} above them that blocks of {span:undivided_ms} may have left in a heap)?"
    r"(?:; {bytes:undivided_mapped} more were live at {span:undivided_ms} in blocks with mappings of their own, which the kernel takes back with them)?\.",
    r"At {span:kept_ms}, RSS was {bytes:kept_rss} and {bytes:kept_bytes} were live, {bytes:kept_less} less than at this moment: the process keeps"
    r" what these had\. mallow rss --at end divides that\.",
    r"No memory was read between this moment and the end of the process at {span:after_ms}, where {bytes:after_bytes}"
    r" were live, {bytes:after_less} less\.",
    r"The kernel's maximum was read (?:{span:peak_unread_ms}|less than 1 ms) before the process's recording ended: it may have risen since\.",
    r"Cause(?:, of what is divided)?: .+ holds {bytes:cause_place_bytes} of what live blocks(?: allocated .+?)? have in memory: {bytes:cause_bytes}(?:, {share:cause_share} of RSS)?"
    + HEAVIEST,
    r"Cause(?:, of what is divided)?: .+ pins {bytes:cause_place_bytes} of holes between its blocks; all holes are {bytes:cause_bytes}, {share:cause_share}",
    r"Cause(?:, of what is divided)?: .+ keeps free pages, {bytes:cause_bytes}, {share:cause_share}; since the peak, most was freed of .+, {bytes:cause_place_bytes}",
    r"Cause(?:, of what is divided)?: {bytes:cause_bytes}, {share:cause_share}: data of files; .+ has {bytes:cause_file_bytes} of it"
    r"(?:, (?:all|nearly all|{bytes:cause_bss_bytes}) in its \.bss \(static variables\))?",
    r"Cause(?:, of what is divided)?: {bytes:cause_bytes}, {share:cause_share}: .+",
    r"{bytes:rss} = RSS; PSS {bytes:pss}",
    r"{bytes:huge_bytes} in huge pages\.",
    r"{bytes:elsewhere_bytes} of live blocks lie where no pages were read: they were allocated meanwhile, for instance\.",
]
FOLDED = r"{bytes:amount}(?: -?{share:share})? {count:rows} (?:smaller|more) parts?: --limit 0 shows all"
RSS_PLACE = r"{bytes:live_bytes} {bytes:rounding_bytes} {bytes:holes_bytes} {bytes:alone_bytes} .+"

PARTS = {
    "live blocks": "live",
    "rounding up of requests": "rounding",
    "holes between live blocks": "holes",
    "free pages": "free_pages",
    "caches of threads": "thread_caches",
    "of live, never touched": "never_touched",
    "of live, in swap": "swapped",
    "mapped by the program": "mappings",
    "stacks of threads": "stacks",
    "pymalloc's arenas": "pymalloc",
    "V8's heap": "v8_heap",
    "the JVM's heap": "java_heap",
    "Go's heap": "go_heap",
    "holes and rounding": "holes_and_rounding",
    "free, or older blocks": "older_or_free",
    "allocators and mappings": "undivided",
    "code of files": "text",
    "data of files": "data",
    "shared memory": "shared",
    "the kernel's": "kernel",
    "Mallow's own": "mallow",
    "changed while read": "unsettled",
}
"""Parts of RSS, by their words."""
PART = r"{bytes:amount}(?: -?{share:share})? [^0-9].+"
