//! The kernel's own maximum of RSS in words, beside the moment at which memory was read. `mallow report`, `mallow rss`
//! and `mallow timeline` share them: the kernel's figure never has the time of a reading, nor a reading the kernel's
//! figure.

use mallow_report::analysis::{
    BusierMoment, FreedAfter, FreedBefore, KeptMoment, KernelPeak, OlderBlocks, RssAccount, Undivided, UndividedBlocks,
};

use crate::output::text::units::{bytes, percent, span};

/// Name of the figure: the maximum of the process's whole life, or as far as the kernel was asked.
pub fn figure(peak: &KernelPeak) -> String {
    format!("the kernel's maximum{}", before_the_end(peak).map(|when| format!(" {when}")).unwrap_or_default())
}

/// Up to when the kernel's figure is known; None: to the end, so that it is the maximum. Every view that has the figure
/// has these words where they are due.
pub fn before_the_end(peak: &KernelPeak) -> Option<String> {
    Some(format!("up to {} before the end", moments(peak.peak_unread_ms?)))
}

fn moments(ms: u64) -> String {
    if ms == 0 { "less than 1 ms".to_owned() } else { span(ms) }
}

/// The time at which the maximum was reached, with a comma before it.
pub fn reached(peak: &KernelPeak) -> String {
    match (peak.peak_is_older, peak.peak_after_ms, peak.peak_by_ms) {
        (true, ..) => ", reached before mallow attached".to_owned(),
        (_, Some(after), Some(by)) if span(after) == span(by) => format!(", reached at {}", span(by)),
        (_, Some(after), Some(by)) => format!(", reached between {} and {}", span(after), span(by)),
        (_, None, Some(by)) => format!(", reached by {}", span(by)),
        _ => ", reached at an unknown time".to_owned(),
    }
}

/// Distance of a size that was read from the maximum, as what follows that size; None: the two are the same to the
/// reader.
pub fn below(rss: u64, peak: &KernelPeak, exact: bool) -> Option<String> {
    let missing = peak.peak_rss.saturating_sub(rss);
    let is_same = bytes(rss, exact) == bytes(peak.peak_rss, exact) || missing == 0;
    (!is_same).then(|| format!("{} below it", percent(missing, peak.peak_rss)))
}

/// The last part of a process's recording that the kernel's figure does not cover, as a sentence; None: it covers all.
pub fn unread(peak: &KernelPeak) -> Option<String> {
    let when = moments(peak.peak_unread_ms?);
    Some(
        format!("The kernel's maximum was read {when} before the process's recording ended: it may have risen since.",),
    )
}

/// The sentence that free memory of the account's moment was in use at another one.
pub fn busier(moment: &BusierMoment, account: &RssAccount) -> String {
    let more = moment.more(account.live_bytes);
    let rss = moment.rss.map(|rss| format!("RSS was {} and ", bytes(rss, false))).unwrap_or_default();
    let when = if moment.ms == account.ms {
        "Within the same millisecond".to_owned()
    } else {
        format!("At {}", span(moment.ms))
    };
    format!(
        "{when}, {rss}{} were live, {} more than at this moment: memory that is free here may have been in use there; \
         then giving it back lowers the highest RSS by less, or not at all.",
        bytes(moment.live_bytes, false),
        bytes(more, false)
    )
}

/// The sentence that live blocks of the account's moment were freed, and RSS stayed.
pub fn stayed(moment: &KeptMoment, account: &RssAccount) -> String {
    let less = account.live_bytes.saturating_sub(moment.live_bytes);
    format!(
        "At {}, RSS was {} and {} were live, {} less than at this moment: the process keeps what these had. mallow rss --at end divides that.",
        span(moment.ms),
        bytes(moment.rss, false),
        bytes(moment.live_bytes, false),
        bytes(less, false)
    )
}

/// The sentence that live blocks of the last reading were freed after it.
pub fn freed_later(end: &FreedAfter, account: &RssAccount) -> String {
    let less = account.live_bytes.saturating_sub(end.live_bytes);
    format!(
        "No memory was read between this moment and the end of the process at {}, where {} were live, {} less.",
        span(end.ms),
        bytes(end.live_bytes, false),
        bytes(less, false)
    )
}

/// The sentence about what the program freed just before, and what that means for remedies.
pub fn freed(before: &FreedBefore, account: &RssAccount) -> String {
    let ago = span(account.ms.saturating_sub(before.ms).max(1));
    let (freed, live) = (bytes(before.freed_bytes, false), bytes(before.live_bytes, false));
    let what = format!("In the {ago} before this moment, {freed} of {live} of live blocks were freed");
    match account.is_at_exit {
        true => format!("{what}: giving back what they left lowers RSS in that time alone."),
        false => format!("{what}."),
    }
}

/// The sentence about the highest RSS on top of the account's moment, and the part of it in the estimates.
pub fn undivided(on_top: &Undivided, account: &RssAccount) -> String {
    let (all, divided) = (bytes(on_top.bytes, false), bytes(account.rss, false));
    let Some(UndividedBlocks { ms, heap_bytes, mapped_bytes, other_bytes }) = on_top.blocks else {
        return format!(
            "The estimates are of the {divided} that are divided: what the {all} above them were is not known."
        );
    };
    let in_heaps = heap_bytes.saturating_add(other_bytes);
    let mut known = format!("The estimates are of the {divided} that are divided");
    if in_heaps > 0 {
        let much = bytes(in_heaps.min(on_top.bytes), false);
        known
            .push_str(&format!(", and of up to {much} above them that blocks of {} may have left in a heap", span(ms)));
    }
    if mapped_bytes > 0 {
        let much = bytes(mapped_bytes, false);
        let more = format!(
            "; {much} more were live at {} in blocks with mappings of their own, which the kernel takes back with them",
            span(ms)
        );
        known.push_str(&more);
    }
    known + "."
}

/// The time from which on blocks are known, as a clause.
pub fn since(older: OlderBlocks) -> &'static str {
    match older {
        OlderBlocks::Attached => "since mallow attached",
        OlderBlocks::Forked => "since it forked",
        OlderBlocks::Freed => "while it was recorded",
        OlderBlocks::Unsampled => "while it was sampled",
    }
}

/// The sentence about older blocks in an account, and why there are some.
pub fn older(account: &RssAccount) -> String {
    let why = match account.older_blocks {
        None => "",
        Some(OlderBlocks::Attached) => " (mallow attached to it)",
        Some(OlderBlocks::Forked) => " (it began with fork)",
        Some(OlderBlocks::Freed) => " (it freed some that were never seen)",
        Some(OlderBlocks::Unsampled) => " (from while nothing was sampled)",
    };
    format!(
        "The process has blocks that are not in the recording{why}: holes and free pages cannot be divided, so no remedy \
         has an estimate."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEAK: KernelPeak = KernelPeak {
        peak_rss: 157_000_000,
        peak_after_ms: Some(80),
        peak_by_ms: Some(100),
        peak_unread_ms: None,
        peak_is_older: false,
    };

    #[test]
    fn the_kernels_maximum_has_its_own_time() {
        assert_eq!(reached(&PEAK), ", reached between 80 ms and 100 ms");
        assert_eq!(reached(&KernelPeak { peak_after_ms: Some(100), ..PEAK }), ", reached at 100 ms");
        assert_eq!(reached(&KernelPeak { peak_by_ms: None, ..PEAK }), ", reached at an unknown time");
        assert_eq!(reached(&KernelPeak { peak_after_ms: None, ..PEAK }), ", reached by 100 ms");
        assert_eq!(reached(&KernelPeak { peak_is_older: true, ..PEAK }), ", reached before mallow attached");
        assert_eq!(unread(&PEAK), None);
        assert!(
            unread(&KernelPeak { peak_unread_ms: Some(12), ..PEAK }).is_some_and(|text| text.contains("12 ms before"))
        );
    }

    #[test]
    fn a_figure_of_the_last_look_is_not_that_of_the_whole_life() {
        let read = |ms| figure(&KernelPeak { peak_unread_ms: ms, ..PEAK });
        assert_eq!(read(None), "the kernel's maximum");
        assert_eq!(read(Some(12)), "the kernel's maximum up to 12 ms before the end");
        assert_eq!(read(Some(0)), "the kernel's maximum up to less than 1 ms before the end");
    }

    #[test]
    fn estimates_name_what_they_are_of() {
        let (profile, heap) = mallow_report::testing::fragmented();
        let account = mallow_report::analysis::rss(&profile, 0, Some(&heap), 9).expect("a report").account;
        let rss = bytes(account.rss, false);
        let says = |blocks| undivided(&Undivided { bytes: 8_060_000, blocks }, &account);
        let blocks =
            |heap_bytes, mapped_bytes| says(Some(UndividedBlocks { ms: 48, heap_bytes, mapped_bytes, other_bytes: 0 }));
        let of = format!("The estimates are of the {rss} that are divided");
        assert_eq!(says(None), format!("{of}: what the 8.06 MB above them were is not known."));
        assert_eq!(
            blocks(0, 8_390_000),
            format!(
                "{of}; 8.39 MB more were live at 48 ms in blocks with mappings of their own, which the kernel takes back with them."
            )
        );
        let heap = blocks(9_000_000, 0);
        assert_eq!(
            heap,
            format!("{of}, and of up to 8.06 MB above them that blocks of 48 ms may have left in a heap.")
        );
    }

    #[test]
    fn a_size_that_was_read_says_how_far_it_is_below() {
        assert_eq!(below(157_000_100, &PEAK, false), None);
        assert_eq!(below(156_990_000, &PEAK, false), None, "157 MB, as is the other");
        assert_eq!(below(1_800_000, &PEAK, false).as_deref(), Some("98.9 % below it"));
        assert_eq!(below(156_990_000, &PEAK, true).as_deref(), Some("<0.1 % below it"));
    }
}
