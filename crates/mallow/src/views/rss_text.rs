//! The parts of RSS as text: the cause first, then what would help, then the parts.

use mallow_report::analysis::{
    Cause, CausePlace, Certainty, FreeRow, Part, PartKind, Remedy, RemedyKind, Rss, RssAccount, RssNote, RssPlace,
    TerritoryKind,
};

use super::part_titles::{mapped, meaning, owner, title_of};
use super::peak_text::{below, busier, figure, freed, freed_later, older, reached, since, stayed, undivided, unread};
use crate::output::text::units::{bytes, count, of, percent, span};
use crate::output::text::{Align, Line, Look, Page, Table, framed_place, function, location};

/// Places that are read, unless the user asks for more: the text names the first ones.
pub const PLACES: usize = 12;
/// Rows that a terminal without a height has.
const HEIGHT: usize = 24;
/// Remark on variables that glibc reads at its start: a call of the program's comes later.
const OF_MALLOPT: &str = "; mallopt in the program has precedence";
/// Number of remedies on the first screen.
const REMEDIES: usize = 4;

/// The report. `asked`: a time that the user asked for, where only the nearest moment is known; `lists`: all lists are
/// wanted.
pub fn text(report: &Rss, asked: Option<&str>, lists: bool, look: &Look) -> String {
    let room = look.height.unwrap_or(HEIGHT).saturating_sub(2);
    let rows = |page: &Page| page.clone().into_text().lines().count();
    let mut page = answer(report, asked, 0, lists, look);
    // Small parts give way, the smallest first.
    for folded in 2..report.account.parts.len() {
        if lists || rows(&page) <= room {
            break;
        }
        page = answer(report, asked, folded, lists, look);
    }
    // The lists follow where there is room, or where they were asked for.
    let mut add = |list: &dyn Fn(&mut Page)| {
        let mut longer = page.clone();
        longer.gap();
        list(&mut longer);
        if lists || rows(&longer) <= room {
            page = longer;
        }
    };
    if report.processes.len() > 1 {
        add(&|page| processes(report, look, page));
    }
    if report.account.places.len() > 1 {
        add(&|page| places(&report.account, look, page));
    }
    page.into_text()
}

/// All but the lists, with so many of the smallest parts in one row.
fn answer(report: &Rss, asked: Option<&str>, folded: usize, lists: bool, look: &Look) -> Page {
    let account = &report.account;
    let mut page = Page::new(*look);
    title(report, look, &mut page);
    if let Some(asked) = asked {
        let moment = format!("{asked}: the nearer one of the two moments whose pages are kept.");
        page.sentence(Line::new().faint(moment));
    }
    for sentence in &account.changed {
        page.sentence(Line::new().warning(*sentence));
    }
    if let Some(cause) = &account.cause {
        page.sentence(because(cause, account, look));
    }
    remedies(account, if lists { usize::MAX } else { REMEDIES }, look, &mut page);
    page.gap();
    parts(account, folded, look, &mut page);
    notes(account, &mut page);
    page
}

/// The sentence about the cause alone, in one line.
pub fn cause(report: &Rss) -> Option<String> {
    let look = Look::default();
    let mut page = Page::new(look);
    page.line(because(report.account.cause.as_ref()?, &report.account, &look));
    Some(page.into_text().trim_end().to_owned())
}

fn title(report: &Rss, look: &Look, page: &mut Page) {
    let account = &report.account;
    let name = account.executable.rsplit('/').next().unwrap_or_default();
    let peak = bytes(account.peak.peak_rss, look.exact);
    let below = below(account.rss, &account.peak, look.exact);
    // The time of a reading that is as high says more than the two looks between which the kernel's figure rose.
    let reached = if below.is_some() { reached(&account.peak) } else { String::new() };
    page.sentence(
        Line::new()
            .strong(format!("{name} ({}), highest RSS: {peak}", account.pid))
            .plain(format!(", {}{reached}", figure(&account.peak))),
    );
    let end = match (account.is_at_exit, account.is_last) {
        (true, _) => ", at exit, before libraries' destructors",
        (false, true) => ", the last reading",
        (false, false) => "",
    };
    let below = below.map(|below| format!(", {below}")).unwrap_or_default();
    let live = bytes(account.live_bytes, look.exact);
    let live = match account.older_blocks {
        None => format!("live blocks: {live} requested"),
        Some(older) => format!("live blocks allocated {}: {live} requested, older ones are not known", since(older)),
    };
    let size = bytes(account.rss, look.exact);
    page.sentence(Line::new().plain(format!("Divided: {size} at {}{end}{below}; {live}", span(account.ms))));
}

fn because(cause: &Cause, account: &RssAccount, look: &Look) -> Line {
    // Pages that came while memory was read are more than all of RSS, and no share of it.
    let share =
        if cause.bytes > account.rss { String::new() } else { format!(", {}", percent(cause.bytes, account.rss)) };
    let size = format!("{}{share}", bytes(cause.bytes, look.exact));
    let allocator = owner(cause.allocator, cause.module.as_deref(), account).unwrap_or("the allocator".to_owned());
    let allocator = allocator.as_str();
    let line = Line::new().strong(if cause.of_divided { "Cause, of what is divided: " } else { "Cause: " });
    let Some(place) = &cause.place else {
        let of_mapping = cause.mapping.as_deref().map(|name| match cause.file_bytes.zip(cause.bss_bytes) {
            Some((all, bss)) => format!("; {name} has {}", of_file(all, bss, look)),
            None => format!("; the largest is {name}"),
        });
        let of_mapping = of_mapping.unwrap_or_default();
        let what = match cause.part {
            PartKind::Mappings => mapped(account),
            PartKind::Unsettled => format!("{}, and whose it was is not known", meaning(cause.part, allocator)),
            part => meaning(part, allocator),
        };
        return line.plain(format!("{size}: {what}{of_mapping}"));
    };
    let much = bytes(place.bytes, look.exact);
    // It allocated them, and others may free; nor need they be what lies in these pages.
    if cause.part == PartKind::FreePages {
        let line = line.plain(format!("{allocator} keeps free pages, {size}; since the peak, most was freed of "));
        return line.then(framed_place(&place.frame, look)).plain(format!(", {much}"));
    }
    let line = line.then(framed_place(&place.frame, look)).plain(" ");
    let line = match cause.part {
        PartKind::Live => {
            let of_rss = if share.is_empty() { "" } else { " of RSS" };
            let known = account.older_blocks.map(|older| format!(" allocated {}", since(older))).unwrap_or_default();
            line.plain(format!("holds {much} of what live blocks{known} have in memory: {size}{of_rss}"))
        }
        PartKind::Holes | PartKind::HolesAndRounding => {
            line.plain(format!("pins {much} of holes between its blocks; all holes are {size}"))
        }
        _ => line.plain(format!("has {much} of {}, {size}", meaning(cause.part, allocator))),
    };
    match &cause.heaviest {
        None => line,
        Some(place) => line
            .plain("; ")
            .then(framed_place(&place.frame, look))
            .plain(format!(" takes most memory, {} with rounding and headers", bytes(place.bytes, look.exact))),
    }
}

/// The part of `all` data that is a file's, and its .bss.
fn of_file(all: u64, bss: u64, look: &Look) -> String {
    let much = bytes(all, look.exact);
    match bss {
        0 => format!("{much} of it"),
        _ if bss == all => format!("{much} of it, all in its .bss (static variables)"),
        // The two are the same to the reader.
        _ if bytes(bss, look.exact) == much => format!("{much} of it, nearly all in its .bss (static variables)"),
        _ => format!("{much} of it, {} in its .bss (static variables)", bytes(bss, look.exact)),
    }
}

fn remedies(account: &RssAccount, most: usize, look: &Look, page: &mut Page) {
    if account.remedies.is_empty() {
        return;
    }
    page.gap();
    page.line(Line::new().strong("What would help"));
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
    for remedy in account.remedies.iter().take(most) {
        let sure = match remedy.certainty {
            Certainty::Sure => "sure",
            Certainty::Likely => "likely",
            Certainty::AtMost => "at most",
        };
        let sure = if remedy.own_bytes.is_some() { "at most now" } else { sure };
        table.row([
            Line::new().plain(format!("-{}", bytes(remedy.own_bytes.unwrap_or(remedy.expected_bytes), look.exact))),
            Line::new().faint(sure),
            action(remedy, account, look).then(at_least(remedy, look)),
        ]);
    }
    table.onto(page);
}

/// The least effect of a remedy, where the expected one is not sure.
fn at_least(remedy: &Remedy, look: &Look) -> Line {
    match remedy.least_bytes {
        0 => Line::new(),
        least if least >= remedy.expected_bytes / 10 * 9 => Line::new(),
        least => Line::new().faint(format!(" (at least {})", bytes(least, look.exact))),
    }
}

fn action(remedy: &Remedy, account: &RssAccount, look: &Look) -> Line {
    let setting = remedy.setting.as_deref().unwrap_or_default();
    let all = bytes(remedy.expected_bytes, look.exact);
    let moved = remedy.own_bytes.map(|_| format!("; with what would lie elsewhere, at most {all}")).unwrap_or_default();
    match remedy.remedy {
        // Another amount is free once the load is over.
        RemedyKind::MallocTrim => Line::new().strong(setting).plain(" at this moment"),
        RemedyKind::ArenaMax => {
            let need = if remedy.certainty == Certainty::AtMost { ", which may need more" } else { "" };
            Line::new().strong(setting).plain(format!(": threads share one arena{need}{OF_MALLOPT}"))
        }
        RemedyKind::TrimThreshold => Line::new()
            .strong(setting)
            .plain(format!(": gives the heap's end back, and large blocks{moved}{OF_MALLOPT}")),
        RemedyKind::Decay => {
            let whose =
                owner(remedy.allocator, remedy.module.as_deref(), account).filter(|_| account.allocators.len() > 1);
            let whose = whose.map(|name| format!(": {name} gives")).unwrap_or_else(|| ": gives".to_owned());
            Line::new().strong(setting).plain(format!("{whose} free pages back"))
        }
        RemedyKind::ThreadCaches => {
            Line::new().strong(setting).plain(": threads keep no freed blocks, and malloc takes more time")
        }
        RemedyKind::MmapThreshold => Line::new()
            .strong(setting)
            .plain(format!(": gives large freed blocks back, and the heap's end{moved}{OF_MALLOPT}")),
        RemedyKind::BackgroundThread => {
            Line::new().strong(setting).plain(": gives them back within 20 s, of an idle program as well")
        }
        RemedyKind::ThreadStacks => {
            let name = if setting.is_empty() { "stacks of 256 kB" } else { setting };
            let stacks = account.thread_stacks.map_or(0, |stacks| stacks.stacks);
            let whose = format!(": {} of threads are locked in memory as a whole", of(stacks, "stack"));
            Line::new().strong(name).plain(whose)
        }
        RemedyKind::NumpyHugePages => Line::new().strong(setting).plain(": arrays take the pages that are touched"),
        RemedyKind::OtherAllocator => Line::new()
            .strong("another allocator")
            .plain(": jemalloc, say; this is all that glibc has beside live blocks"),
        RemedyKind::Pool => {
            let first = remedy.places.first();
            let others = remedy.places.len().saturating_sub(1) as u64;
            let line = Line::new().strong("a memory pool").plain(" for blocks of ");
            let line = first.map_or(line.clone(), |frame| line.then(framed_place(frame, look)));
            let line = if others > 0 { line.plain(format!(" and {}", of(others, "other place"))) } else { line };
            // They left the holes themselves, and would in a pool.
            let line =
                if remedy.own_holes { line.plain(", if it keeps together what is freed together") } else { line };
            // The pages that such a pool empties are free pages of glibc's, where no other allocator may have them.
            let is_glibcs = account.allocators.iter().all(|row| row.allocator == Some("glibc"));
            let is_glibcs = is_glibcs && !account.allocators.is_empty();
            if is_glibcs { line.plain(", then malloc_trim(0)") } else { line }
        }
    }
}

fn parts(account: &RssAccount, folded: usize, look: &Look, page: &mut Page) {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left]);
    let mut sizes: Vec<u64> = account.parts.iter().map(|part| part.bytes.unsigned_abs()).collect();
    sizes.sort_unstable();
    let least = folded.checked_sub(1).and_then(|last| sizes.get(last)).copied().unwrap_or(0);
    let is_folded = |part: &&Part| folded > 0 && part.part != PartKind::Live && part.bytes.unsigned_abs() <= least;
    for part in account.parts.iter().filter(|part| !is_folded(part)) {
        let size = part.bytes.unsigned_abs();
        let sign = if part.bytes < 0 { "-" } else { "" };
        // More than all of RSS is no share of it.
        let share = if size > account.rss { String::new() } else { format!("{sign}{}", percent(size, account.rss)) };
        table.row([
            Line::new().plain(format!("{sign}{}", bytes(size, look.exact))),
            Line::new().faint(share),
            Line::new().plain(title_of(part, account)),
            whose(part, account, look),
        ]);
    }
    let others: i64 = account.parts.iter().filter(is_folded).map(|part| part.bytes).sum();
    // Live blocks have their row however few they are: hidden parts may be larger.
    let largest = account.parts.iter().filter(is_folded).map(|part| part.bytes.unsigned_abs()).max().unwrap_or(0);
    let shown = account.parts.iter().filter(|part| !is_folded(part)).map(|part| part.bytes.unsigned_abs()).min();
    let what = if shown >= Some(largest) { "smaller part" } else { "more part" };
    if folded > 0 {
        let (sign, size) = (if others < 0 { "-" } else { "" }, others.unsigned_abs());
        let number = account.parts.iter().filter(is_folded).count() as u64;
        table.row([
            Line::new().plain(format!("{sign}{}", bytes(size, look.exact))),
            Line::new().faint(format!("{sign}{}", percent(size, account.rss))),
            Line::new().faint(format!("{}: --limit 0 shows all", of(number, what))),
        ]);
    }
    let sum = format!("= RSS; PSS {}", bytes(account.pss, look.exact));
    table.row([Line::new().strong(bytes(account.rss, look.exact)), Line::new(), Line::new().strong(sum), Line::new()]);
    table.onto(page);
}

fn whose(part: &Part, account: &RssAccount, look: &Look) -> Line {
    let named = |place: &CausePlace| {
        let frame = &place.frame;
        let at = location(&frame.function, frame.file.as_deref(), frame.line, frame.module.as_deref(), look);
        let share = percent(place.bytes, part.bytes.unsigned_abs());
        Line::new().faint(format!("{} {at} {share}", function(&frame.function, look)))
    };
    match (&part.largest, part.part) {
        (Some(place), _) => named(place),
        (None, PartKind::FreePages) => Line::new().faint(free(part, account, look)),
        (None, PartKind::Pymalloc) => {
            let used = part.used_bytes.map(|used| format!("{} of it in use", bytes(used, look.exact)));
            Line::new().faint(used.unwrap_or_default())
        }
        (None, PartKind::Stacks) => {
            let stacks = account.thread_stacks.map(|stacks| {
                let (resident, reserved) =
                    (bytes(stacks.resident_bytes, look.exact), bytes(stacks.reserved_bytes, look.exact));
                let whose = match (stacks.stacks, stacks.ended) {
                    (0, 0) => return String::new(),
                    (0, ended) => format!("{} of ended threads beside the first thread's", of(ended, "stack")),
                    (own, 0) => format!("{} beside the first thread's", of(own, "stack")),
                    (own, ended) => {
                        format!("{} beside the first thread's, {ended} more of ended threads", of(own, "stack"))
                    }
                };
                format!("{whose}: {resident} of {reserved}")
            });
            Line::new().faint(stacks.unwrap_or_default())
        }
        (None, PartKind::Data) => {
            let file = part.mapping.as_deref().zip(part.file_bytes.zip(part.bss_bytes)).map(|(path, (all, bss))| {
                let name = path.rsplit('/').next().unwrap_or(path);
                let share = percent(all, part.bytes.unsigned_abs());
                let bss = if bss > 0 { format!(", {} .bss", bytes(bss, look.exact)) } else { String::new() };
                format!("{name} {share}{bss}")
            });
            Line::new().faint(file.unwrap_or_default())
        }
        (None, PartKind::Unsettled) if account.unmapped_bytes > 0 => {
            Line::new().faint(format!("{} of it unmapped meanwhile", bytes(account.unmapped_bytes, look.exact)))
        }
        (None, PartKind::Mappings | PartKind::Undivided) => {
            Line::new().faint(part.mapping.as_deref().unwrap_or_default())
        }
        _ => Line::new(),
    }
}

/// Places of an allocator's free pages, in the order of their sizes.
fn free(part: &Part, account: &RssAccount, look: &Look) -> String {
    let rows = || account.free_pages.iter().filter(|row| row.allocator == part.allocator && row.module == part.module);
    let sum = |of: fn(&FreeRow) -> u64| rows().map(of).sum::<u64>();
    let is_threads = |row: &FreeRow| row.arena == TerritoryKind::ThreadArena;
    let threads = || rows().filter(|row| is_threads(row));
    let others = |of: fn(&FreeRow) -> u64| rows().filter(|row| !is_threads(row)).map(of).sum::<u64>();
    let in_threads: u64 = threads().map(|row| row.top_bytes.saturating_add(row.unused_bytes)).sum();
    let arenas = threads().map(|row| row.arenas).sum();
    // A part of what is free may be all that the heap has.
    let unused = if part.allocator == Some("glibc") {
        "in the heap, which has no live block"
    } else {
        "in mappings without a live block"
    };
    let behind = if part.allocator == Some("glibc") { "at the heap's end" } else { "behind the last block" };
    let mut all = vec![
        (others(|row| row.top_bytes), behind.to_owned()),
        (others(|row| row.unused_bytes), unused.to_owned()),
        (in_threads, format!("in {}", of(arenas, "thread arena"))),
        (sum(|row| row.between_bytes), "between blocks".to_owned()),
        (sum(|row| row.beside_cached_bytes), "beside blocks in caches".to_owned()),
    ];
    all.retain(|(size, _)| *size > 0);
    all.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    all.iter().map(|(size, place)| format!("{} {place}", bytes(*size, look.exact))).collect::<Vec<_>>().join(", ")
}

fn notes(account: &RssAccount, page: &mut Page) {
    let kept = &account.kept_apart;
    let amounts = [
        (kept.huge_bytes, "in huge pages"),
        (kept.shared_dirty_bytes, "shared with other processes since fork: PSS divides it"),
        (kept.locked_bytes, "locked in memory"),
        (kept.lazy_free_bytes, "given back by MADV_FREE: the kernel takes it when it needs to"),
        (kept.swap_bytes, "in swap"),
        (kept.hugetlb_bytes, "in hugetlbfs, beside RSS"),
    ];
    for (amount, what) in amounts.into_iter().filter(|(amount, _)| *amount > 0) {
        page.sentence(Line::new().faint(format!("{} {what}.", bytes(amount, false))));
    }
    if account.elsewhere_bytes > account.live_bytes / 100 {
        let much = bytes(account.elsewhere_bytes, false);
        let words =
            format!("{much} of live blocks lie where no pages were read: they were allocated meanwhile, for instance.");
        page.sentence(Line::new().faint(words));
    }
    for words in account.limits.iter().filter_map(|note| note_words(*note, account)) {
        page.sentence(Line::new().faint(words));
    }
}

/// The sentence of a note; None where the first lines say it.
fn note_words(note: RssNote, account: &RssAccount) -> Option<String> {
    match note {
        RssNote::NoPages => {
            let gap = account.no_pages.as_deref().unwrap_or("they were not read");
            Some(format!("Pages are not in the recording: {gap}."))
        }
        RssNote::OlderBlocks => Some(older(account)),
        RssNote::UnknownSizeClasses => {
            Some("The allocator's size classes are not known: holes and rounding are one part.".to_owned())
        }
        RssNote::UnknownMetadata => {
            let others = account.allocators.iter().filter(|row| row.allocator != Some("glibc"));
            let names: Vec<_> = others.filter_map(|row| owner(row.allocator, row.module.as_deref(), account)).collect();
            let of = match account.allocators.len() {
                0 | 1 => String::new(),
                _ => format!(" of {}", names.join(", ")),
            };
            Some(format!("Free pages{of} include what the allocator needs for itself and for threads' caches."))
        }
        RssNote::UnknownCaches => {
            Some("What threads keep of freed blocks is not known: it counts as holes and free pages.".to_owned())
        }
        RssNote::FreedBefore => account.freed_before.as_ref().map(|before| freed(before, account)),
        RssNote::Busier => account.busier.as_ref().map(|moment| busier(moment, account)),
        RssNote::Kept => account.kept.as_ref().map(|moment| stayed(moment, account)),
        RssNote::FreedAfter => account.freed_after.as_ref().map(|end| freed_later(end, account)),
        RssNote::Undivided => account.undivided.as_ref().map(|on_top| undivided(on_top, account)),
        RssNote::PeakUnread => unread(&account.peak),
        RssNote::HigherBefore | RssNote::WhileRunning => None,
    }
}

fn processes(report: &Rss, look: &Look, page: &mut Page) {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(
        ["highest RSS", "read", "PSS then", "live then", "at the end", "process"].map(|title| Line::new().faint(title)),
    );
    for row in &report.processes {
        let name = row.executable.rsplit('/').next().unwrap_or_default();
        let process = format!("{name} ({})", row.pid);
        let amounts = [Some(row.peak.peak_rss), Some(row.highest_rss), Some(row.highest_pss), row.highest_live_bytes];
        let amounts = amounts.into_iter().chain([Some(row.end_rss)]);
        let cells = amounts.map(|amount| match amount {
            Some(amount) => Line::new().plain(bytes(amount, look.exact)),
            None => Line::new().faint("unknown"),
        });
        let name = if row.is_shown { Line::new().strong(process) } else { Line::new().plain(process) };
        table.row(cells.chain([name]));
    }
    table.onto(page);
}

fn places(account: &RssAccount, look: &Look, page: &mut Page) {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["live", "rounding", "holes", "alone", "place"].map(|title| Line::new().faint(title)));
    let row = |place: &RssPlace| {
        let totals = &place.totals;
        let amounts = [totals.live_bytes, totals.rounding_bytes, totals.holes_bytes, place.alone_bytes];
        let cells = amounts.map(|amount| Line::new().plain(bytes(amount, look.exact))).into_iter();
        let name =
            place.frame.as_ref().map_or(Line::new().faint("(no stack is known)"), |frame| framed_place(frame, look));
        cells.chain([name]).collect::<Vec<_>>()
    };
    account.places.iter().for_each(|place| table.row(row(place)));
    if let Some(hidden) = &account.hidden {
        let sums = &hidden.sums;
        let cells =
            [sums.live_bytes, sums.rounding_bytes, sums.holes_bytes].map(|n| Line::new().plain(bytes(n, look.exact)));
        let more = Line::new().faint(format!("… {} more", count(hidden.rows)));
        table.row(cells.into_iter().chain([Line::new(), more]));
    }
    table.onto(page);
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::rss;
    use mallow_report::testing::fragmented;

    use super::{PartKind, text};
    use crate::output::text::Look;

    #[test]
    fn the_cause_and_the_function_come_first() {
        let (profile, heap) = fragmented();
        let report = rss(&profile, 0, Some(&heap), 9).expect("a report");
        insta::assert_snapshot!(text(&report, None, false, &Look::default()));
    }

    #[test]
    fn a_screen_of_80_columns_and_24_rows_has_the_answer() {
        let (profile, heap) = fragmented();
        let report = rss(&profile, 0, Some(&heap), 9).expect("a report");
        let look = Look { width: Some(80), height: Some(24), ..Look::default() };
        let text = text(&report, Some("40%"), false, &look);
        assert!(text.lines().count() <= 22 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    /// Live blocks have a row of their own, however few they are.
    #[test]
    fn hidden_parts_are_smaller_only_where_they_are() {
        let (profile, heap) = fragmented();
        let mut report = rss(&profile, 0, Some(&heap), 9).expect("a report");
        let look = Look { width: Some(80), height: Some(18), ..Look::default() };
        let row = |report: &_| {
            let text = text(report, None, false, &look);
            text.lines().find(|line| line.contains("--limit 0")).expect("hidden parts").to_owned()
        };
        assert!(row(&report).contains(" smaller parts: --limit 0 shows all"), "{}", row(&report));
        let live = report.account.parts.iter_mut().find(|part| part.part == PartKind::Live).expect("live blocks");
        live.bytes = 1;
        assert!(row(&report).contains(" more parts: --limit 0 shows all"), "{}", row(&report));
    }

    #[test]
    fn mappings_may_be_of_a_heap_without_room() {
        let (profile, heap) = fragmented();
        let mut report = rss(&profile, 0, Some(&heap), 9).expect("a report");
        assert_eq!(super::mapped(&report.account), "mapped by the program");
        report.account.heap_is_blocked = true;
        assert_eq!(super::mapped(&report.account), "mapped by the program, or by glibc");
    }

    #[test]
    fn without_pages_what_is_not_known_is_said() {
        let (mut profile, _) = fragmented();
        profile.footprints[0].gap = Some("the process could not be read".to_owned());
        let report = rss(&profile, 0, None, 9).expect("a report");
        insta::assert_snapshot!(text(&report, None, false, &Look::default()));
    }
}
