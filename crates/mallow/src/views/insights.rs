//! The insights of a report, in words.

use mallow_report::analysis::{Evidence, Insight, Insights, Outside};
use serde::Serialize;

use crate::output::text::units::{bytes, capitalized, count, of, range, share};
use crate::output::text::{Align, Line, Look, Page, Table, called, framed, heading, passed};

/// A suggestion in words.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InsightSentence {
    /// Estimated saving, in words: `90.0 % of malloc's time`, `up to 12.0 % of the peak`.
    pub saves: String,
    /// Description of the pattern and of its remedy, for people.
    pub text: String,
}

/// Sentences of all insights that matter.
pub fn sentences(insights: &Insights, look: &Look) -> Vec<InsightSentence> {
    insights.insights.iter().filter(|insight| insight.matters()).map(|insight| sentence(insight, look)).collect()
}

fn sentence(insight: &Insight, look: &Look) -> InsightSentence {
    let saves = match insight.is_of_peak() {
        true => format!("up to {} of the peak", share(insight.peak_share)),
        false => format!("{} of malloc's time", share(insight.malloc_share)),
    };
    InsightSentence { saves, text: format!("{} {}", evidence(&insight.evidence, insight.sites, look), insight.remedy) }
}

/// The sentence about insights that do not matter; None: all do.
pub fn small(insights: &Insights) -> Option<String> {
    let small = insights.small_in_all;
    let each = if small == 1 { "saves" } else { "each save" };
    (small > 0).then(|| format!("{} {each} less than 1 % of the run's CPU time", of(small, "suggestion")))
}

/// Condition of the shares, where the program has to run in another way.
pub fn condition(insights: &Insights) -> &'static str {
    if insights.has_python_malloc { ", with PYTHONMALLOC=malloc" } else { "" }
}

/// The sentence about allocations without suggestions; None: nothing is left out.
pub fn left_out(insights: &Insights) -> Option<String> {
    let allocations = insights.interpreted_allocations;
    let by = of(allocations, "allocation");
    (allocations > 0).then(|| format!("No suggestions for {by} by scripts and interpreters"))
}

/// Number of insights that matter: of those that are listed, and of all.
pub fn shown(insights: &Insights) -> (usize, u64) {
    let shown = insights.insights.iter().filter(|insight| insight.matters()).count();
    let all = insights.insights_in_all.saturating_sub(insights.small_in_all);
    (shown, all)
}

/// Shows them: nothing where there are none.
pub fn show(insights: &Insights, look: &Look, page: &mut Page) {
    let (listed, all) = shown(insights);
    if listed > 0 {
        page.gap();
        let most = format!("  what each may save, estimated{}", condition(insights));
        page.sentence(heading("Insights", listed, all).faint(most));
        entries(insights, usize::MAX, look, page);
    }
    if let Some(left_out) = left_out(insights) {
        page.gap();
        page.sentence(Line::new().faint(left_out));
    }
    if let Some(small) = small(insights) {
        page.gap();
        page.sentence(Line::new().faint(small));
    }
}

pub fn entries(insights: &Insights, most: usize, look: &Look, page: &mut Page) {
    const INDENT: usize = 10;
    for insight in insights.insights.iter().filter(|insight| insight.matters()).take(most) {
        let InsightSentence { saves, text } = sentence(insight, look);
        let mut table = Table::new(&[Align::Right, Align::Left]);
        table.row([Line::new().plain(saves), place(insight, look)]);
        table.onto(page);
        page.paragraph(INDENT, &text);
    }
}

fn place(insight: &Insight, look: &Look) -> Line {
    const CALLERS: usize = 3;
    let through = insight.through.as_ref().map(|through| crate::output::text::function(through, look));
    let passed = passed(insight.largest_site.nameless_below(&insight.frame));
    let passed: Vec<String> = through.into_iter().chain(passed).collect();
    let mut line = framed(&insight.frame, look);
    if !passed.is_empty() {
        line = line.faint(format!(" via {}", passed.join(" and ")));
    }
    called(line, &insight.frame, &insight.largest_site, CALLERS, look)
}

/// The sentence for what the program does, on so many call paths.
fn evidence(evidence: &Evidence, sites: u64, look: &Look) -> String {
    let size = |n: u64| bytes(n, look.exact);
    let mean = |all: u64, n: u64| size(all.saturating_add(n / 2).checked_div(n).unwrap_or(0));
    match evidence {
        Evidence::GrownBuffer {
            grown_buffers,
            growth_steps,
            copied_bytes,
            smallest_bytes,
            largest_bytes,
            doubling: _,
            container,
        } => {
            let of_container = container.map(|c| format!(" of {c}")).unwrap_or_default();
            let grew = match grown_buffers {
                Some(buffers) => {
                    let steps = each(*growth_steps, *buffers, "step");
                    let buffers =
                        if *buffers == 1 { of(1, "buffer") } else { format!("{} buffers", inferred(*buffers, look)) };
                    format!("{}{of_container} grew in {steps}", capitalized(&buffers))
                }
                None => {
                    let steps = of(*growth_steps, "step");
                    format!("Buffers{of_container}, most of them begun at other calls, grew here in {steps}")
                }
            };
            let copied = copied(*copied_bytes, *largest_bytes, look);
            format!("{grew}, {}; {copied}.", range(size(*smallest_bytes), &size(*largest_bytes)))
        }
        Evidence::RebuiltContainer { times, allocations, growth_steps: _, copied_bytes, largest_bytes, container } => {
            let what = container.map(|c| format!("A{}", after_article(c))).unwrap_or("A buffer".to_owned());
            let copied = copied(*copied_bytes, *largest_bytes, look);
            let allocations = each(*allocations, *times, "allocation");
            let times = if *times == 1 { "once".to_owned() } else { format!("{} times", inferred(*times, look)) };
            format!("{what} is built anew {times}, by {allocations}, up to {}; {copied}.", size(*largest_bytes))
        }
        Evidence::TemporaryBlock {
            allocations,
            freed_before_next,
            smallest_bytes,
            largest_bytes,
            allocated_bytes,
            container,
        } => {
            let sizes = match (smallest_bytes, largest_bytes) {
                (a, b) if *b / 4 > allocated_bytes / (*allocations).max(1) => {
                    format!("{} to {} ({} on average)", size(*a), size(*b), mean(*allocated_bytes, *allocations))
                }
                (a, b) => range(size(*a), &size(*b)),
            };
            let each = if freed_before_next >= allocations { "each" } else { "nearly each" };
            let used = container.map(|c| format!(" for a{}", after_article(c))).unwrap_or_default();
            // Of several call paths, each has a block at a time.
            let there = if sites > 1 { "on the same call path" } else { "there" };
            format!(
                "{} of {sizes}{used}, {each} freed before its thread allocates {there} again.",
                of(*allocations, "block")
            )
        }
        Evidence::OneLifetime {
            allocations,
            allocated_bytes,
            freed_in_runs,
            runs,
            overhead_bytes: _,
            allocated_overhead_bytes,
            places,
        } => {
            // Of the same blocks as their mean: what was live at the peak may have had other sizes.
            let overhead = match allocated_overhead_bytes {
                0 => String::new(),
                n => format!("; header and padding take {} more for each on average", mean(*n, *allocations)),
            };
            let blocks = match freed_in_runs < allocations {
                true => format!("{} of {}", count(*freed_in_runs), of(*allocations, "block")),
                false => of(*allocations, "block"),
            };
            let mean = mean(*allocated_bytes, *allocations);
            // One that several sites share was counted for each.
            let runs = if *runs > 1 { format!("at most {}", of(*runs, "run")) } else { of(*runs, "run") };
            format!("{blocks} of {mean} on average{}, freed one after another in {runs}{overhead}.", elsewhere(*places))
        }
        Evidence::FreedByOthers { allocations, freed_by_others, places } => {
            let blocks = of(*allocations, "block");
            let blocks = match freed_by_others >= allocations {
                true => blocks,
                false => format!("{} of {blocks}", count(*freed_by_others)),
            };
            format!("{blocks} are freed by another thread than allocated them{}.", elsewhere(*places))
        }
        Evidence::KeptSlack { kept, kept_bytes, kept_slack } => {
            let (blocks, all, slack) = (of(*kept, "large block"), size(*kept_bytes), size(*kept_slack));
            let (grew, were) = if *kept == 1 { ("it", "was") } else { ("they", "were") };
            format!("{blocks} of {all}: {grew} grew by {slack} in the last step (some may be unused) and {were} kept.")
        }
        Evidence::GrowingAtPeak { growing, growing_bytes, old_bytes } => {
            let (blocks, all, old) = (of(*growing, "large block"), size(*growing_bytes), size(*old_bytes));
            let (from, was) =
                if *growing == 1 { ("that it grew from", "was") } else { ("that they grew from", "were") };
            format!("{blocks} of {all} grew at the peak: the old {old} {from} {was} live, too.")
        }
        Evidence::BeforeMain(outside) => outside_of_main(outside, "before main", look),
        Evidence::AfterMain(outside) => outside_of_main(outside, "after main", look),
        Evidence::PopularContainer { container, allocations, allocated_bytes } => {
            let (n, all) = (of(*allocations, "allocation"), size(*allocated_bytes));
            // Values of the program's own have no common name.
            let plural = if ["copied value", "string stream"].contains(container) { "s" } else { "" };
            format!("{n} for {container}{plural} in this function, {all}.")
        }
    }
}

/// `12 steps each`, `one step`, `1.6 steps each on average`.
fn each(all: u64, buffers: u64, what: &str) -> String {
    let buffers = buffers.max(1);
    match (all / buffers, buffers) {
        _ if !all.is_multiple_of(buffers) => {
            format!("{:.1} {what}s each on average", all as f64 / buffers as f64)
        }
        (0 | 1, 1) => format!("one {what}"),
        (0 | 1, _) => format!("one {what} each"),
        (each, 1) => format!("{} {what}s", count(each)),
        (each, _) => format!("{} {what}s each", count(each)),
    }
}

/// A number that follows from which blocks take over from which others: blocks that do so by chance are in it, so no
/// more than three of its digits are shown.
fn inferred(n: u64, look: &Look) -> String {
    let unit = 10u64.pow(n.max(1).ilog10().saturating_sub(2));
    let rounded = n.saturating_add(unit / 2) / unit * unit;
    if rounded == n || look.exact { count(n) } else { format!("about {}", count(rounded)) }
}

fn copied(copied: u64, largest: u64, look: &Look) -> String {
    /// Size from which the C library may have moved the pages instead.
    const PAGES: u64 = 128 << 10;
    match copied {
        0 => "nothing was copied".to_owned(),
        n if largest >= PAGES => format!("up to {} copied", bytes(n, look.exact)),
        n => format!("{} copied", bytes(n, look.exact)),
    }
}

fn elsewhere(places: u64) -> String {
    match places {
        0 | 1 => String::new(),
        n => format!(", here and at {}", of(n - 1, "other place")),
    }
}

fn outside_of_main(outside: &Outside, when: &str, look: &Look) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let name = |path: &str| if look.full_names { path.to_owned() } else { base(path) };
    let known: u64 = outside.modules.iter().fold(0, |sum, m| sum.saturating_add(m.allocations));
    let by = of(outside.functions, "function");
    let by = match &outside.modules[..] {
        [only] if known >= outside.allocations => format!("{by} of {}", name(&only.module)),
        modules => {
            let modules: Vec<_> =
                modules.iter().map(|m| format!("{} ({})", name(&m.module), count(m.allocations))).collect();
            let others = if known < outside.allocations { " and others" } else { "" };
            format!("{by}, of {}{others}", modules.join(", "))
        }
    };
    let size = bytes(outside.allocated_bytes, look.exact);
    format!("{}, {size}, {when}, by {by}.", of(outside.allocations, "allocation"))
}

/// `n Array`, ` std::string`: what follows "a".
fn after_article(name: &str) -> String {
    let vowel = name.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']);
    format!("{}{name}", if vowel { "n " } else { " " })
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Evidence, Insights, insights};
    use mallow_report::testing::habits;

    use super::show;
    use crate::output::text::{Look, Page};
    use crate::views::report_document::ReportDocument;

    fn shown(insights: &Insights, look: Look) -> String {
        let mut page = Page::new(look);
        show(insights, &look, &mut page);
        page.into_text()
    }

    #[test]
    fn all_kinds_in_words() {
        insta::assert_snapshot!(shown(&insights(&habits(), usize::MAX), Look::default()));
    }

    #[test]
    fn a_growth_at_the_peak_names_both_blocks() {
        let growing = |n| Evidence::GrowingAtPeak { growing: n, growing_bytes: 6_422_548, old_bytes: 3_211_276 };
        let look = Look::default();
        let one = "1 large block of 6.42 MB grew at the peak: the old 3.21 MB that it grew from was live, too.";
        assert_eq!(super::evidence(&growing(1), 1, &look), one);
        let two = "2 large blocks of 6.42 MB grew at the peak: the old 3.21 MB that they grew from were live, too.";
        assert_eq!(super::evidence(&growing(2), 1, &look), two);
    }

    #[test]
    fn what_follows_from_a_pattern_has_three_digits() {
        let said = |n, exact| super::inferred(n, &Look { exact, ..Look::default() });
        assert_eq!([0, 1, 999, 4_000].map(|n| said(n, false)), ["0", "1", "999", "4,000"]);
        assert_eq!([40_005, 89_990].map(|n| said(n, false)), ["about 40,000", "about 90,000"]);
        assert_eq!((said(40_005, true), said(u64::MAX, false).len()), ("40,005".to_owned(), 32));
    }

    #[test]
    fn narrow_terminals_and_exact_numbers() {
        let look = Look { width: Some(72), exact: true, ..Look::default() };
        insta::assert_snapshot!(shown(&insights(&habits(), 2), look));
    }

    #[test]
    fn buffers_that_began_elsewhere_are_not_counted() {
        let grown = Evidence::GrownBuffer {
            grown_buffers: None,
            growth_steps: 19_006,
            copied_bytes: 1_216_384,
            smallest_bytes: 128,
            largest_bytes: 128,
            doubling: true,
            container: Some("std::vector"),
        };
        let said = "Buffers of std::vector, most of them begun at other calls, grew here in 19,006 steps, 128 B; 1.22 MB copied.";
        assert_eq!(super::evidence(&grown, 1, &Look::default()), said);
    }

    /// 5.7 bytes are 6, not 5.
    #[test]
    fn averages_are_rounded() {
        let together = Evidence::OneLifetime {
            allocations: 418_950,
            allocated_bytes: 2_393_487,
            freed_in_runs: 418_950,
            runs: 1,
            overhead_bytes: 0,
            allocated_overhead_bytes: 0,
            places: 1,
        };
        let said = super::evidence(&together, 1, &Look::default());
        assert!(said.starts_with("418,950 blocks of 6 B on average"), "{said}");
    }

    /// Blocks of the peak are not all blocks: what is said of both is computed of the same.
    #[test]
    fn headers_and_padding_are_those_of_the_blocks_that_the_sentence_names() {
        let together = Evidence::OneLifetime {
            allocations: 1_000,
            allocated_bytes: 24_400,
            freed_in_runs: 1_000,
            runs: 1,
            overhead_bytes: 3_230_000,
            allocated_overhead_bytes: 9_600,
            places: 1,
        };
        let said = "1,000 blocks of 24 B on average, freed one after another in 1 run; header and padding take 10 B more for each \
                    on average.";
        assert_eq!(super::evidence(&together, 1, &Look::default()), said);
    }

    /// What does not divide evenly is an average, and says so.
    #[test]
    fn steps_of_several_buffers_are_theirs() {
        let said =
            [(48_012, 30_008), (60_016, 30_008), (30_008, 30_008), (1, 1), (7, 1), (20_000, 30_000), (250_001, 2_000)];
        let words = said.map(|(all, buffers)| super::each(all, buffers, "step"));
        let expected = [
            "1.6 steps each on average",
            "2 steps each",
            "one step each",
            "one step",
            "7 steps",
            "0.7 steps each on average",
            "125.0 steps each on average",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn all_kinds_in_json() {
        let report = ReportDocument::without_hints(&habits(), 0, usize::MAX);
        let mut json = serde_json::to_value(report).expect("JSON");
        for insight in json["insights"].as_array_mut().expect("insights") {
            assert!(insight["largest_site"]["frames"].as_array().is_some_and(|frames| !frames.is_empty()));
            insight.as_object_mut().expect("an object").remove("largest_site");
        }
        let reported = serde_json::json!({"insights_in_all": json["insights_in_all"], "insights": json["insights"]});
        insta::assert_snapshot!(serde_json::to_string_pretty(&reported).expect("JSON"));
    }

    #[test]
    fn nothing_is_said_where_there_is_nothing() {
        assert_eq!(shown(&Insights::default(), Look::default()), "");
    }
}
