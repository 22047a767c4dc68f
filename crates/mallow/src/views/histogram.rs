//! Histograms of blocks, as text.

use mallow_report::analysis::{Bucket, Lifetimes, Sizes};

use crate::flags::BlocksBy;
use crate::output::text::units::{self, bytes, count, of, percent};
use crate::output::text::{Align, Line, Look, Page, Table};

/// Columns of a bar, and of the shortest one, on a narrow terminal.
const BAR: usize = 20;
const SHORTEST: usize = 4;
/// Columns of all that is before it, at the most.
const NUMBERS: usize = 58;

pub fn sizes(report: &Sizes, by: BlocksBy, look: &Look) -> String {
    let mut page = Page::new(*look);
    let all = format!(": {}, {}", of(report.allocations, "allocation"), bytes(report.allocated_bytes, look.exact));
    let range = match (report.smallest, report.largest) {
        (Some(smallest), Some(largest)) => {
            let (smallest, largest) = (bytes(smallest, look.exact), bytes(largest, look.exact));
            let from = if smallest == largest { "" } else { "from " };
            format!("; {from}{}", units::range(smallest, &largest))
        }
        _ => String::new(),
    };
    page.sentence(Line::new().strong("Blocks by size").plain(all + &range));
    let rows = look.height.map(|height| height.saturating_sub(5));
    let scale = Scale { blocks: report.allocations, bytes: report.allocated_bytes, by, rows, look };
    scale.show("size of each", &report.buckets, size, &mut page);
    page.into_text()
}

pub fn lifetimes(report: &Lifetimes, by: BlocksBy, look: &Look) -> String {
    let mut page = Page::new(*look);
    let ended = format!(
        ": {} of {} ended, {} live at the end",
        count(report.frees),
        of(report.allocations, "block"),
        count(report.live)
    );
    page.sentence(Line::new().strong("Blocks by lifetime").plain(ended));
    let rows = look.height.map(|height| height.saturating_sub(8) / 2);
    let scale = Scale { blocks: report.allocations, bytes: report.allocated_bytes, by, rows, look };
    scale.show("time", &report.by_ms, time, &mut page);
    if report.table_wait_ms > 0 && !report.by_ms.is_empty() {
        let waits = units::span(report.table_wait_ms);
        page.sentence(
            Line::new().faint(format!("  up to {waits} of a lifetime may be waits for Mallow's unwind tables")),
        );
    }
    page.sentence(Line::new().faint("  allocations of all threads between a block's own and its end"));
    scale.show("allocations", &report.by_allocations, range, &mut page);
    page.into_text()
}

/// Totals that shares refer to, and the form of tables of buckets.
struct Scale<'a> {
    blocks: u64,
    bytes: u64,
    by: BlocksBy,
    /// Limit of buckets; beyond it, neighbours are one, until they fit.
    rows: Option<usize>,
    look: &'a Look,
}

impl Scale<'_> {
    fn show(&self, title: &str, buckets: &[Bucket], name: fn(&Bucket) -> String, page: &mut Page) {
        if buckets.is_empty() {
            page.line(Line::new().plain("  none"));
            return;
        }
        let mut buckets = buckets.to_vec();
        while self.rows.is_some_and(|rows| buckets.len() > rows.max(3)) {
            buckets = pairs(&buckets);
        }
        let value = |bucket: &Bucket| if self.by == BlocksBy::Bytes { bucket.bytes } else { bucket.blocks };
        let bar_columns = self.look.width.map_or(BAR, |width| width.saturating_sub(NUMBERS).clamp(SHORTEST, BAR));
        let most = buckets.iter().map(value).max().unwrap_or(0);
        let mut table =
            Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
        table.row([title, "blocks", "%", "bytes", "%", ""].map(|title| Line::new().faint(title)));
        for bucket in &buckets {
            table.row([
                Line::new().strong(name(bucket)),
                Line::new().plain(count(bucket.blocks)),
                Line::new().plain(percent(bucket.blocks, self.blocks)),
                Line::new().plain(bytes(bucket.bytes, self.look.exact)),
                Line::new().plain(percent(bucket.bytes, self.bytes)),
                Line::new().plain(bar(value(bucket), most, bar_columns, self.look.ascii)),
            ]);
        }
        table.onto(page);
    }
}

fn pairs(buckets: &[Bucket]) -> Vec<Bucket> {
    let join = |pair: &[Bucket]| {
        let last = pair.last().unwrap_or(&pair[0]);
        Bucket {
            from: pair[0].from,
            to: last.to,
            blocks: pair.iter().fold(0, |sum: u64, b| sum.saturating_add(b.blocks)),
            bytes: pair.iter().fold(0, |sum: u64, b| sum.saturating_add(b.bytes)),
        }
    };
    buckets.chunks(2).map(join).collect()
}

/// A bar of eighths, or of signs that all terminals have. What is more than nothing has a piece at least.
fn bar(value: u64, most: u64, columns: usize, ascii: bool) -> String {
    let steps = if ascii { columns } else { columns * 8 };
    let exact = u128::from(value) * steps as u128;
    let filled = (exact / u128::from(most.max(1))) as usize;
    let filled = filled.max(usize::from(value > 0));
    if ascii {
        return "#".repeat(filled);
    }
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][filled % 8];
    "█".repeat(filled / 8) + rest
}

/// A size as `--size` reads it: binary units, because buckets are powers of two.
fn binary(n: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let fits = UNITS.into_iter().find(|(shift, _)| n >= 1 << shift && n.is_multiple_of(1 << shift));
    fits.map_or(n.to_string(), |(shift, unit)| format!("{}{unit}", n >> shift))
}

fn size(bucket: &Bucket) -> String {
    match bucket.to {
        Some(to) if to == bucket.from + 1 => bucket.from.to_string(),
        Some(to) => format!("{}..{}", binary(bucket.from), binary(to)),
        None => format!("{}..", binary(bucket.from)),
    }
}

/// A range of time as `--lifetime` reads it.
fn time(bucket: &Bucket) -> String {
    match (bucket.from, bucket.to) {
        (0, Some(to)) => format!("..{to}ms"),
        (from, Some(to)) => format!("{from}ms..{to}ms"),
        (from, None) => format!("{from}ms.."),
    }
}

fn range(bucket: &Bucket) -> String {
    match bucket.to {
        Some(to) if to == bucket.from + 1 => count(bucket.from),
        Some(to) => format!("{} to {}", count(bucket.from), count(to - 1)),
        None => format!("{} and more", count(bucket.from)),
    }
}

#[cfg(test)]
mod tests {
    use super::{bar, lifetimes, pairs, range, size, sizes, time};
    use crate::flags::{BlocksBy, FilterFlags};
    use crate::input::filters::Filters;
    use crate::output::text::Look;
    use mallow_profile::{Block, Event, Moment, Profile};
    use mallow_report::analysis::{Bucket, Histogram, LifetimesBuilder, Sizes};
    use mallow_report::testing::Builder;

    #[test]
    fn ranges_are_what_filters_read() {
        let bucket = |from, to| Bucket { from, to, blocks: 1, bytes: 1 };
        let all = [bucket(0, Some(1)), bucket(64, Some(128)), bucket(1 << 19, Some(1 << 20)), bucket(1 << 63, None)];
        assert_eq!(all.map(|b| size(&b)), ["0", "64..128", "512Ki..1Mi", "8388608Ti.."]);
        assert_eq!(all.map(|b| time(&b))[..2], ["..1ms", "64ms..128ms"]);
        assert_eq!(all.map(|b| range(&b))[..2], ["0", "64 to 127"]);
    }

    #[test]
    fn waits_for_mallow_are_said_of_lifetimes() {
        let mut b = Builder::default();
        b.process(7, &["a"], 10);
        let said = |profile: &Profile| {
            let mut builder = LifetimesBuilder::default();
            let block = Block { sequence: 0, site: 0, size: 8, ms: 1, thread: 0 };
            builder.event(1, Moment { process: 0, thread: 0, ms: 40 }, &Event::Free(Some(block)));
            let flags = FilterFlags { lifetime: "32ms..64ms".parse().ok(), ..FilterFlags::default() };
            let filters = Filters::of(&flags, profile).describe().unwrap_or_default();
            filters + &lifetimes(&builder.finish(profile), BlocksBy::Blocks, &Look::default())
        };
        assert!(!said(&b.profile).contains("unwind tables"));
        b.profile.processes[0].table_wait_ms = 58;
        let text = said(&b.profile);
        assert!(text.contains("  up to 58 ms of a lifetime may be waits for Mallow's unwind tables\n"), "{text}");
        let filter = "Filtered by lifetime 32ms..64ms, of which up to 58 ms may be waits for Mallow's unwind tables";
        assert!(text.starts_with(filter), "{text}");
    }

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!((bar(5, 5, 20, true), bar(0, 5, 20, true)), ("#".repeat(20), String::new()));
        assert_eq!((bar(1, 1_000_000, 20, true), bar(1, 1_000_000, 20, false)), ("#".to_owned(), "▏".to_owned()));
        assert_eq!(bar(1, 2, 20, false), "█".repeat(10));
    }

    #[test]
    fn many_buckets_fit_a_low_terminal_and_lose_nothing() {
        let mut histogram = Histogram::default();
        (0..40).for_each(|power| histogram.add(1 << power, 1 << power));
        let buckets = histogram.buckets();
        let joined = pairs(&buckets);
        assert_eq!((buckets.len(), joined.len()), (40, 20));
        assert_eq!(joined.iter().map(|b| b.blocks).sum::<u64>(), 40);
        let report = Sizes {
            allocations: 40,
            allocated_bytes: (1 << 40) - 1,
            smallest: Some(1),
            largest: Some(1 << 39),
            buckets,
        };
        let look = Look { width: Some(80), height: Some(24), ..Look::default() };
        let text = sizes(&report, BlocksBy::Blocks, &look);
        assert!(text.lines().count() <= 23 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains('…'), "{text}");
    }
}
