//! The answer of a comparison: one line that says what changed, the totals with their places, and the places by size.

use mallow_profile::Origin;
use mallow_report::analysis::Measure;
use mallow_report::analysis::diff::{Diff, DiffPlace, DiffRename, DiffSide, DiffTotal, State, Verdict, Why};

use super::diff_numbers::{Numbers, Reconciled, reconciled};
use crate::flags::By;
use crate::output::text::units::{count, of, percent};
use crate::output::text::{
    Align, Line, Look, Page, Table, change_style, described_by, function, location, measured, signed,
};

/// Limits of the places that are shown.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    pub rows: usize,
    /// Places that changed by less are left out, by the measure.
    pub min: u64,
    /// Places that are less than a hundredth of what changed are left out.
    pub floor: bool,
}

/// Below this share of what changed, a place is noise; so many are shown in any case.
const FLOOR: u64 = 100;
const LEAST_ROWS: usize = 5;
/// Number of places that are named of those left out.
const NAMED: usize = 3;
/// Number of new names on the first screen.
const RENAMES: usize = 3;

/// `encode HTTPEncoder.swift:297`, `note_session server.cpp:21 (by make_payload)`
fn name(place: &DiffPlace, look: &Look) -> String {
    let Some(frame) = &place.frame else { return "no stack that is known".to_owned() };
    let at = location(&frame.function, frame.file.as_deref(), frame.line, frame.module.as_deref(), look);
    let name = function(&frame.function, look);
    let name = if at.is_empty() { name } else { format!("{name} {at}") };
    match &place.by {
        Some(by) => format!("{name} (by {})", function(by, look)),
        None => name,
    }
}

/// `HTTPEncoder.swift:297`, or the function where no line is known.
fn short_name(place: &DiffPlace, look: &Look) -> String {
    match &place.frame {
        Some(frame) if frame.file.is_some() => location("", frame.file.as_deref(), frame.line, None, look),
        Some(frame) => function(&frame.function, look),
        None => name(place, look),
    }
}

/// `1,000`, `1,000 in parse`, `1,500 (1,000 in parse)`: what other functions requested has their names.
fn before(place: &DiffPlace, by: Measure, numbers: &Numbers) -> String {
    let all = numbers.amount_by(by, place.before);
    let part = place.formerly.iter().fold(0u64, |sum, former| sum.saturating_add(former.before));
    let functions = match &place.formerly[..] {
        [] => return all,
        [only] => function(&only.function, &numbers.look),
        several => of(several.len() as u64, "other function"),
    };
    match part >= place.before {
        true => format!("{all} in {functions}"),
        false => format!("{all} ({} in {functions})", numbers.amount_by(by, part)),
    }
}

fn state(place: &DiffPlace, by: Measure, diff: &Diff, numbers: &Numbers) -> String {
    match place.state {
        // It may have allocated there, too: samples do not have all.
        State::New if is_sampled(&diff.before) => "no sample before".to_owned(),
        State::Gone if is_sampled(&diff.after) => "no sample after".to_owned(),
        State::New => "new".to_owned(),
        State::Gone => "gone".to_owned(),
        State::More | State::Fewer => {
            format!("{} → {}", before(place, by, numbers), numbers.amount_by(by, place.after))
        }
    }
}

/// A change beside what it changed, `+12.3 %`; nothing where there was nothing.
fn relative(before: u64, change: i64) -> String {
    match percent(change.unsigned_abs(), before) {
        share if share.is_empty() || change == 0 => String::new(),
        share if share.starts_with(['<', '>']) => share,
        share => signed(change, share),
    }
}

/// Words behind an amount of the measure, as it is shown.
fn noun(by: Measure, amount: &str) -> &'static str {
    match by {
        Measure::Bytes => "allocated",
        Measure::Peak => "live at the peak",
        Measure::Live => "live",
        by => {
            let several = measured(by);
            let is_one = amount.trim_start_matches(['+', '-']) == "1";
            several.strip_suffix('s').filter(|_| is_one).unwrap_or(several)
        }
    }
}

/// The sentence for the change of one number.
fn headline(verdict: &Verdict, numbers: &Numbers) -> String {
    let change = numbers.change_by(verdict.by, verdict.change);
    let what = noun(verdict.by, &change);
    let change = match verdict.estimate {
        Some(estimate) if estimate.may_be_zero() => format!("Not significant: {change}"),
        _ => change,
    };
    match relative(verdict.before, verdict.change) {
        share if share.is_empty() => format!("{change} {what}"),
        share => format!("{change} {what} ({share})"),
    }
}

/// ` if load is called read now`, where nothing tells whether functions have other names or are other ones.
fn if_renamed(diff: &Diff, look: &Look) -> String {
    let guess = |one: &&DiffRename| one.own && matches!(one.why, Why::Renamed { certain: false, .. });
    let guessed: Vec<&DiffRename> = diff.renamed.iter().filter(guess).collect();
    match &guessed[..] {
        [] => String::new(),
        [only] => match &only.why {
            Why::Renamed { from, to, .. } => {
                format!(" if {} is called {} now", function(from, look), function(to, look))
            }
            _ => String::new(),
        },
        several => format!(" if {} have other names now", of(several.len() as u64, "function")),
    }
}

/// The numbers of a side are estimates.
fn is_sampled(side: &DiffSide) -> bool {
    side.origin.as_ref().is_some_and(Origin::is_sampled)
}

/// The change is one of estimates, whose interval is not known.
pub fn is_estimated(diff: &Diff) -> bool {
    let sampled = is_sampled(&diff.before) || is_sampled(&diff.after);
    sampled && !diff.verdict.estimate.is_some_and(|estimate| estimate.enough())
}

/// The sentence that says what changed.
pub fn verdict(diff: &Diff, numbers: &Numbers) -> String {
    let said = change(diff, numbers);
    if !is_estimated(diff) {
        return said;
    }
    let mut rest = said.chars();
    let first = rest.next().map(|first| first.to_ascii_lowercase());
    format!("By estimates, {}{}", first.map_or(String::new(), String::from), rest.as_str())
}

fn change(diff: &Diff, numbers: &Numbers) -> String {
    let verdict = &diff.verdict;
    let look = &numbers.look;
    let by = verdict.by;
    let there = numbers.amount_by(by, verdict.after);
    let all_equal = || diff.totals.iter().all(|total| total.moved == 0 && total.change == 0);
    let Some(first) = verdict.places.first() else {
        return match verdict.change {
            0 if all_equal() => {
                let renamed = if_renamed(diff, look);
                format!("No change{renamed}: {there} {} in both, and no other total changed", noun(by, &there))
            }
            0 => format!("No change in {}: {there} in both", measured(by)),
            _ => format!("{}, at no place that is known", headline(verdict, numbers)),
        };
    };
    let head = match verdict.change {
        0 => format!("No net change in {} ({there})", measured(by)),
        _ => headline(verdict, numbers),
    };
    let with_change = |place: &DiffPlace| match place.formerly.is_empty() {
        true => format!("{} {}", name(place, look), numbers.change_by(by, place.change)),
        false => {
            format!(
                "{} {}, {}",
                name(place, look),
                numbers.change_by(by, place.change),
                state(place, by, diff, numbers)
            )
        }
    };
    let of_all = if verdict.one_way { "the change" } else { "what went up and down" };
    let part = if verdict.share >= 1.0 {
        "all".to_owned()
    } else {
        format!("{:.0} %", (verdict.share * 100.0).round().min(99.0))
    };
    if !verdict.is_clear() {
        let places = of(verdict.places_in_all, "place");
        // What is less than one in a thousand and at no place in particular.
        let little = verdict.change.unsigned_abs().saturating_mul(1000) < verdict.before;
        let head = if little && verdict.change != 0 { format!("Nearly no change: {head}") } else { head };
        return format!("{head} in {places}; the largest, {}, is {part} of {of_all}", with_change(first));
    }
    match &verdict.places[..] {
        [only] if verdict.one_way => {
            format!("{head}: {}, {}; {part} of {of_all}", name(only, look), state(only, by, diff, numbers))
        }
        several => {
            let names: Vec<_> = several.iter().map(with_change).collect();
            format!("{head}: {}; {part} of {of_all}", names.join(", "))
        }
    }
}

/// Each total, and the place that changed most.
pub fn totals(diff: &Diff, numbers: &Numbers) -> Table {
    const WIDE: usize = 100;
    let look = &numbers.look;
    let wide = look.width.is_none_or(|width| width >= WIDE);
    let right = Align::Right;
    let explained = diff.totals.iter().any(|total| total.moved > 0);
    let largest = if explained { "largest change" } else { "" };
    // Changes of estimates have a column of their intervals.
    let sampled = diff.totals.iter().any(|total| total.estimate.is_some());
    let (align, titles): (&[Align], &[&str]) = match sampled {
        true => (
            &[Align::Left, right, right, right, Align::Left, right, Align::Left],
            &["", "before", "after", "change", "95 %", "", largest],
        ),
        false => {
            (&[Align::Left, right, right, right, right, Align::Left], &["", "before", "after", "change", "", largest])
        }
    };
    let mut table = Table::new(align);
    table.row(titles.iter().map(|title| Line::new().faint(*title)));
    for total in &diff.totals {
        let by = total.by;
        let word = if wide { measured(by).to_owned() } else { By::from(by).to_string() };
        let share = match total.change {
            0 => percent(0, total.before),
            change => relative(total.before, change),
        };
        let largest = total.largest.first().map(|place| match wide {
            true => format!("{} {}", numbers.change_by(by, place.change), name(place, look)),
            false => short_name(place, look),
        });
        let first = [
            if by == diff.verdict.by { Line::new().strong(word) } else { Line::new().plain(word) },
            Line::new().plain(numbers.amount_by(by, total.before)),
            Line::new().plain(numbers.amount_by(by, total.after)),
            Line::new().plain(numbers.change_by(by, total.change)),
        ];
        let margin = sampled.then(|| Line::new().plain(numbers.margin_by(by, total.estimate)));
        let last = [Line::new().plain(share), Line::new().plain(largest.unwrap_or_default())];
        table.row(first.into_iter().chain(margin).chain(last));
    }
    table
}

/// The places that are shown, of those that are there.
fn shown(total: &DiffTotal, limits: PlaceLimits) -> &[DiffPlace] {
    let worth = |(at, place): (usize, &DiffPlace)| {
        let change = place.change.unsigned_abs();
        let noise = limits.floor && u128::from(change) * u128::from(FLOOR) < u128::from(total.moved);
        at < limits.rows && change >= limits.min && (!noise || at < LEAST_ROWS)
    };
    // The largest come first.
    let shown = total.largest.iter().enumerate().take_while(|(at, place)| worth((*at, place))).count();
    &total.largest[..shown]
}

/// Places by size, whatever became of them, and the rest as one line.
pub fn places(diff: &Diff, numbers: &Numbers, limits: PlaceLimits, page: &mut Page) {
    let total = &diff.places;
    if total.places == 0 {
        return;
    }
    let (by, look) = (total.by, &numbers.look);
    page.gap();
    let title = format!("Changes of {}", measured(by));
    page.sentence(Line::new().strong(title).plain(format!(", in {}", of(total.places, "place"))));
    let shown = shown(total, limits);
    let sampled = shown.iter().any(|place| place.estimate.is_some());
    let mut table = Table::new(match sampled {
        true => &[Align::Right, Align::Left, Align::Left, Align::Left],
        false => &[Align::Right, Align::Left, Align::Left],
    });
    for place in shown {
        let change = Line::new().styled(change_style(place.change), numbers.change_by(by, place.change));
        let margin = sampled.then(|| Line::new().plain(numbers.margin_by(by, place.estimate)));
        let called = (place.by.as_deref(), place.through.as_deref());
        let last = [
            Line::new().plain(state(place, by, diff, numbers)),
            described_by(place.frame.as_ref(), place.sites, called, &place.stack, look),
        ];
        table.row([change].into_iter().chain(margin).chain(last));
    }
    table.onto(page);
    let left = total.places.saturating_sub(shown.len() as u64);
    if left > 0 {
        let named = total.largest[shown.len()..].iter().take(NAMED);
        let named: Vec<_> =
            named.map(|p| format!("{} {}", short_name(p, look), numbers.change_by(by, p.change))).collect();
        let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        let more = if left > NAMED as u64 && !named.is_empty() { ", …" } else { "" };
        let change = numbers.change_by(by, left_out(total, shown));
        let advice = if limits.min > 0 { "" } else { "; --all shows them" };
        page.line(Line::new().faint(format!("  and {} more, {change}{advice}{named}{more}", count(left))));
    }
}

fn left_out(total: &DiffTotal, shown: &[DiffPlace]) -> i64 {
    let in_places = total.change.saturating_sub(total.elsewhere);
    shown.iter().fold(in_places, |left, place| left.saturating_sub(place.change))
}

/// The line in which changes add up: of places that are shown, of those left out, and of no place.
pub fn reconciled_places(diff: &Diff, numbers: &Numbers, limits: PlaceLimits) -> String {
    let total = &diff.places;
    let shown = shown(total, limits);
    let hidden = (left_out(total, shown), total.places.saturating_sub(shown.len() as u64));
    let change = shown.iter().fold(0i64, |sum, place| sum.saturating_add(place.change));
    let sums = Reconciled { by: total.by, shown: change, hidden, elsewhere: total.elsewhere, change: total.change };
    reconciled(&sums, "place") + &numbers.per_operation(total.by, total.change)
}

/// Files and functions with other names, each once.
pub fn renamed(diff: &Diff, all: bool, look: &Look, page: &mut Page) {
    let name = |text: &str| function(text, look);
    let say = |one: &DiffRename| match &one.why {
        Why::Moved { from, to, .. } if one.file => {
            format!("{from} is called {to} now ({})", of(one.functions, "function"))
        }
        Why::Moved { function, from, to } if one.functions == 1 => {
            format!("{} moved from {from} to {to}", name(function))
        }
        Why::Moved { from, to, .. } => format!("{} moved from {from} to {to}", of(one.functions, "function")),
        Why::Renamed { from, to, .. } => format!("{} is called {} now", name(from), name(to)),
        Why::Gone { function } => format!("{} is no longer on the call path", name(function)),
        Why::New { function } => format!("{} has come in between", name(function)),
        Why::Split | Why::Merged | Why::SameNumbers => String::new(),
    };
    let names = |one: &&DiffRename| all || one.own && matches!(one.why, Why::Moved { .. } | Why::Renamed { .. });
    let is_guess = |one: &&DiffRename| matches!(one.why, Why::Renamed { certain: false, .. });
    let (guessed, known): (Vec<_>, Vec<_>) = diff.renamed.iter().filter(names).partition(is_guess);
    let limit = if all { usize::MAX } else { RENAMES };
    let list = |renames: &[&DiffRename]| {
        let said: Vec<_> = renames.iter().take(limit).map(|one| say(one)).collect();
        let more = match renames.len().checked_sub(limit) {
            None | Some(0) => String::new(),
            Some(more) => format!("; and {more} more, --all shows them"),
        };
        said.join("; ") + &more
    };
    if !(known.is_empty() && guessed.is_empty()) {
        page.gap();
    }
    if !known.is_empty() {
        page.paragraph(0, &format!("Renamed: {}", list(&known)));
    }
    if !guessed.is_empty() {
        let unknown = "by call paths and numbers alone: these may be two functions";
        page.paragraph(0, &format!("Perhaps renamed: {} ({unknown})", list(&guessed)));
    }
}
