//! The heap over time: areas, one on the other, with tooltips. Needs no script.

use std::fmt::Write;

use mallow_report::analysis::{Band, Over, Timeline};
use mallow_report::names;

use super::flame::fitting;
use super::{Picture, harmless};
use crate::output::text::time_axis::{highest, moment, named_ticks, on_scale, resolution, subject, value};
use crate::output::text::units::{count, of, percent, span};
use crate::output::text::{Look, clean, location};

/// Points, unless more are asked for: two pixels each.
pub const POINTS: usize = 550;
/// Bands.
pub const BANDS: usize = 10;

const WIDTH: f64 = 1200.0;
/// The chart's edges.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 1184.0;
const HEIGHT: f64 = 380.0;
const LINE: f64 = 18.0;
/// Of a character.
const CHARACTER: f64 = 7.3;

/// Fills of bands, light enough for black letters; then what is left. Neighbours differ in lightness too, for printers.
const FILLS: [&str; 10] =
    ["#7ab3ef", "#f9c27a", "#86cf93", "#e8a0a0", "#c9b3f2", "#f3e27c", "#7fd3d0", "#e3a6d6", "#b4cf66", "#d2b48c"];
const REST: &str = "#d9d9d9";

const STYLE: &str = r#"
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #111; }
.title { font-size: 16px; font-weight: bold; }
.note, .scale { fill: #444; }
.warning { fill: #a00000; font-weight: bold; }
.paper { fill: #fff; }
.grid { stroke: #ccc; stroke-width: 0.6; }
.axis { stroke: #333; stroke-width: 1; fill: none; }
.band { stroke: #fff; stroke-width: 0.8; }
.outline { stroke: #222; stroke-width: 1.2; fill: none; }
.swatch { stroke: #555; stroke-width: 0.6; }
.peak { fill: #111; }
.moment { fill: #000; fill-opacity: 0; }
.moment:hover { fill-opacity: 0.18; }
@media print { .moment { display: none; } }
"#;

/// The picture.
pub fn draw(report: &Timeline, filters: Option<&str>) -> String {
    let command = report.command.join(" ");
    let command = if command.is_empty() { "(command unknown)".to_owned() } else { clean(&command).into_owned() };
    let notes = notes(report, filters);
    let top = 70.0 + LINE * notes.len() as f64;
    let legend = legend(report);
    let height = top + HEIGHT + 60.0 + LINE * legend.len() as f64;
    let chart = Chart::of(report, top);

    let mut picture = Picture::new(WIDTH as u32, height as u32, &command);
    picture.code("style", STYLE);
    picture.empty("rect", &[("class", "paper"), ("width", "100%"), ("height", "100%")]);
    picture.line();
    text(&mut picture, "title", 12.0, 24.0, "start", &fitting(&command, (WIDTH - 24.0) * 0.74));
    for (index, (class, note)) in notes.iter().enumerate() {
        text(&mut picture, class, 12.0, 42.0 + LINE * index as f64, "start", note);
    }
    chart.scales(&mut picture);
    chart.areas(&mut picture);
    chart.letters(&mut picture);
    chart.peak(&mut picture);
    for (index, entry) in legend.iter().enumerate() {
        let y = top + HEIGHT + 52.0 + LINE * index as f64;
        if let Some(fill) = entry.fill {
            let (x, y) = (number(LEFT), number(y - 10.0));
            let size = [("width", "12"), ("height", "12")];
            picture.empty("rect", &[&[("class", "swatch"), ("fill", fill), ("x", &x), ("y", &y)], &size[..]].concat());
        }
        let class = if entry.fill.is_some() { "legend" } else { "note" };
        text(&mut picture, class, LEFT + 20.0, y, "start", &entry.letter);
        text(&mut picture, class, LEFT + 130.0, y, "end", &entry.amount);
        text(&mut picture, class, LEFT + 200.0, y, "end", &entry.share);
        text(&mut picture, class, LEFT + 214.0, y, "start", &fitting(&entry.name, RIGHT - LEFT - 214.0));
    }
    chart.moments(&mut picture);
    picture.finish()
}

/// What is shown and what it lacks; each a class and a line.
fn notes(report: &Timeline, filters: Option<&str>) -> Vec<(&'static str, String)> {
    let most = highest(report, false);
    let what = match (report.by, report.at_end) {
        (Over::Allocations, _) => format!("{}, at most {most}", of(report.total, "allocation")),
        (_, end) => format!("at most {most}, {} at the end", value(report, end.unwrap_or(0), false)),
    };
    let mut notes = vec![("note", format!("{}: {what}; {}", subject(report), resolution(report)))];
    notes.extend(filters.map(|filters| ("note", filters.to_owned())));
    if let Some(why) = &report.ending.cut_short {
        notes.push(("warning", format!("The recording is cut short: {why}. Numbers are those up to the cut.")));
    }
    if report.ending.lost > 0 {
        let lost = of(report.ending.lost, "event");
        notes.push(("warning", format!("{lost} could not be recorded: the true numbers are higher.")));
    }
    notes
}

struct Entry {
    fill: Option<&'static str>,
    letter: String,
    amount: String,
    share: String,
    name: String,
}

/// Bands as they lie on each other, the uppermost first, with what they have of the highest point, or of all allocations.
fn legend(report: &Timeline) -> Vec<Entry> {
    let part = |values: &[u64]| match report.by {
        Over::LiveBytes | Over::Live => values.get(report.highest_point).copied().unwrap_or(0),
        Over::Allocations => values.iter().fold(0u64, |sum, n| sum.saturating_add(*n)),
    };
    let entry = |fill, letter: String, values: &[u64], name: String| Entry {
        fill: Some(fill),
        letter,
        amount: match report.by {
            Over::LiveBytes | Over::Live => value(report, part(values), false),
            Over::Allocations => count(part(values)),
        },
        share: percent(part(values), report.total),
        name,
    };
    let head = if report.by == Over::Allocations { "allocations" } else { "of the peak" };
    let [letter_head, share] = [String::new(), String::new()];
    let mut all = vec![Entry { fill: None, letter: letter_head, amount: head.into(), share, name: "function".into() }];
    if report.others.iter().any(|n| *n > 0) {
        let more = report.bands_in_all.saturating_sub(report.bands.len() as u64);
        all.push(entry(REST, String::new(), &report.others, of(more, "other function")));
    }
    for (index, band) in report.bands.iter().enumerate().rev() {
        all.push(entry(fill(index), letter(index), &band.values, described(band)));
    }
    all
}

fn fill(band: usize) -> &'static str {
    FILLS[band % FILLS.len()]
}

fn letter(band: usize) -> String {
    char::from(b'A' + (band % 26) as u8).to_string()
}

fn short(band: &Band) -> String {
    band.function.as_ref().map_or("(no stack is known)".to_owned(), |name| harmless(&names::short(name)).into_owned())
}

fn described(band: &Band) -> String {
    let (name, file, module) = (band.function.as_deref().unwrap_or(""), band.file.as_deref(), band.module.as_deref());
    format!("{}  {}", short(band), location(name, file, None, module, &Look::default()))
}

fn text(picture: &mut Picture, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    if !words.is_empty() {
        picture.label(&[("class", class), ("x", &number(x)), ("y", &number(y)), ("text-anchor", anchor)], words);
        picture.line();
    }
}

fn number(n: f64) -> String {
    let text = format!("{n:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Chart<'a> {
    report: &'a Timeline,
    top: f64,
    /// What the chart reaches up to.
    most: u64,
    /// Pixels of a point.
    wide: f64,
}

impl<'a> Chart<'a> {
    fn of(report: &'a Timeline, top: f64) -> Self {
        let most = report.points.iter().map(|p| p.value).max().unwrap_or(0);
        Self { report, top, most, wide: (RIGHT - LEFT) / report.points.len().max(1) as f64 }
    }

    fn x(&self, point: usize) -> f64 {
        LEFT + point as f64 * self.wide
    }

    fn y(&self, n: u64) -> f64 {
        self.top + HEIGHT - n as f64 / self.most.max(1) as f64 * HEIGHT
    }

    fn scales(&self, picture: &mut Picture) {
        let bottom = self.top + HEIGHT;
        for n in value_ticks(self.most, 5) {
            let y = number(self.y(n));
            picture.empty(
                "line",
                &[("class", "grid"), ("x1", &number(LEFT)), ("x2", &number(RIGHT)), ("y1", &y), ("y2", &y)],
            );
            text(picture, "scale", LEFT - 8.0, self.y(n) + 4.0, "end", &on_scale(self.report, n));
        }
        let place = |ms: u64| {
            let half = span(ms).len() as f64 * CHARACTER / 2.0 + 6.0;
            (self.time_x(ms) - half, self.time_x(ms) + half)
        };
        for ms in named_ticks(self.report, 12, WIDTH, place) {
            let (x, from, to) = (number(self.time_x(ms)), number(bottom), number(bottom + 5.0));
            picture.empty("line", &[("class", "axis"), ("x1", &x), ("x2", &x), ("y1", &from), ("y2", &to)]);
            text(picture, "scale", self.time_x(ms), bottom + 19.0, "middle", &span(ms));
        }
        let frame = format!("M{} {}V{}H{}", number(LEFT), number(self.top), number(bottom), number(RIGHT));
        picture.empty("path", &[("class", "axis"), ("d", &frame)]);
        picture.line();
    }

    /// Where a millisecond begins: between points that are longer than one, too.
    fn time_x(&self, ms: u64) -> f64 {
        let point = self.report.point_of(ms);
        let begun = ms.saturating_sub(self.report.points[point].ms) as f64 / self.report.point_ms.max(1) as f64;
        self.x(point) + begun.min(1.0) * self.wide
    }

    /// For each point, the sums of the bands from the lowest up to this one.
    fn levels(&self) -> Vec<Vec<u64>> {
        let mut sums = vec![0u64; self.report.points.len()];
        let mut levels = vec![sums.clone()];
        for band in &self.report.bands {
            sums.iter_mut().zip(&band.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
            levels.push(sums.clone());
        }
        levels.push(self.report.points.iter().map(|p| p.value).collect());
        levels
    }

    /// Steps, because a point holds for all of its time.
    fn areas(&self, picture: &mut Picture) {
        let levels = self.levels();
        let last = levels.len() - 1;
        for (index, pair) in levels.windows(2).enumerate() {
            if pair[0] == pair[1] {
                continue;
            }
            let mut path = format!("M{} {}", number(LEFT), number(self.y(pair[1][0])));
            self.steps(&mut path, &pair[1], false);
            let _ = write!(path, "V{}", number(self.y(pair[0].last().copied().unwrap_or(0))));
            self.steps(&mut path, &pair[0], true);
            path.push('Z');
            let (fill, name) = match self.report.bands.get(index) {
                Some(band) if index + 1 < last => (fill(index), format!("{} {}", letter(index), short(band))),
                _ => (REST, "others".to_owned()),
            };
            picture.open("path", &[("class", "band"), ("fill", fill), ("d", &path)]);
            picture.open("title", &[]);
            picture.words(&name);
            picture.close();
            picture.close();
            picture.line();
        }
        let mut path = format!("M{} {}", number(LEFT), number(self.y(levels[last][0])));
        self.steps(&mut path, &levels[last], false);
        picture.empty("path", &[("class", "outline"), ("d", &path)]);
        picture.line();
    }

    /// The upper edge of a level from the left to the right, or back. Equal points are one step.
    fn steps(&self, path: &mut String, level: &[u64], back: bool) {
        let edge = |at: usize| if back { self.x(at) } else { self.x(at + 1) };
        let order: Vec<usize> = if back { (0..level.len()).rev().collect() } else { (0..level.len()).collect() };
        for (n, &at) in order.iter().enumerate() {
            let next = order.get(n + 1).map(|&next| level[next]);
            if next == Some(level[at]) {
                continue;
            }
            let _ = write!(path, "H{}", number(edge(at)));
            if let Some(next) = next {
                let _ = write!(path, "V{}", number(self.y(next)));
            }
        }
    }

    /// A band's letter, where the band is thickest, if there is room.
    fn letters(&self, picture: &mut Picture) {
        let levels = self.levels();
        for (index, band) in self.report.bands.iter().enumerate() {
            let pixels = |at: usize| self.y(levels[index][at]) - self.y(levels[index + 1][at]);
            // As thick over the width of a letter and its sides as at its middle.
            let around = (14.0 / self.wide).ceil() as usize;
            let thick = |at: usize| {
                let (from, to) = (at.saturating_sub(around / 2), (at + around / 2).min(band.values.len() - 1));
                if from == 0 && at > 0 { 0.0 } else { (from..=to).map(pixels).fold(f64::INFINITY, f64::min) }
            };
            let best = (0..band.values.len()).max_by(|&a, &b| thick(a).total_cmp(&thick(b)));
            if let Some(at) = best.filter(|&at| thick(at) >= 15.0) {
                let y = (self.y(levels[index][at]) + self.y(levels[index + 1][at])) / 2.0 + 4.0;
                text(picture, "letter", self.x(at) + self.wide / 2.0, y, "middle", &letter(index));
            }
        }
    }

    fn peak(&self, picture: &mut Picture) {
        if self.report.total == 0 {
            return;
        }
        let x = self.x(self.report.highest_point) + self.wide / 2.0;
        let tip = format!("M{} {}l-5 -8h10Z", number(x), number(self.top - 2.0));
        picture.empty("path", &[("class", "peak"), ("d", &tip)]);
        let words = highest(self.report, false);
        let (at, anchor) =
            if x + 12.0 + words.len() as f64 * CHARACTER < WIDTH { (x + 10.0, "start") } else { (x - 10.0, "end") };
        text(picture, "peak", at, self.top - 3.0, anchor, &words);
    }

    /// What a point consists of, as a tooltip over all of its height.
    fn moments(&self, picture: &mut Picture) {
        let (y, height) = (number(self.top), number(HEIGHT));
        let report = self.report;
        for (at, point) in report.points.iter().enumerate() {
            let (x, width) = (number(self.x(at)), number(self.wide));
            picture.open("rect", &[("class", "moment"), ("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
            picture.open("title", &[]);
            let unit = match report.by {
                Over::LiveBytes => " live",
                Over::Live => " blocks live",
                Over::Allocations => "",
            };
            let mut words = format!("{}\n{}{unit}", moment(point), value(report, point.value, true));
            for (index, band) in report.bands.iter().enumerate().rev() {
                let n = band.values[at];
                if n > 0 {
                    let name = fitting(&short(band), 50.0 * CHARACTER);
                    let _ = write!(words, "\n{} {}  {}", letter(index), value(report, n, true), name);
                }
            }
            if report.others[at] > 0 {
                let _ = write!(words, "\n  {}  others", value(report, report.others[at], true));
            }
            picture.words(&words);
            picture.close();
            picture.close();
            picture.line();
        }
    }
}

/// Round numbers up to the highest, about so many.
fn value_ticks(most: u64, about: u64) -> Vec<u64> {
    let rough = (most / about.max(1)).max(1);
    let power = 10u64.pow(rough.ilog10());
    let step = [1, 2, 5, 10].iter().map(|n| power.saturating_mul(*n)).find(|step| *step >= rough).unwrap_or(rough);
    (0..=most / step).map(|n| n * step).collect()
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Block, Call, Event, Moment, Profile};
    use mallow_report::analysis::{Over, Timeline, TimelineBuilder, TimelineOptions};
    use mallow_report::testing::Builder;

    use super::{draw, value_ticks};
    use crate::output::picture::testing::{hostile, parsed};
    use crate::output::text::time_axis::testing::{parser_timeline, story};

    fn drawn(report: &Timeline, filters: Option<&str>) -> String {
        let text = draw(report, filters);
        parsed(&text);
        let (before, rest) = text.split_once("<style>").expect("a style sheet");
        format!("{before}{}", rest.split_once("</style>\n").expect("it ends").1)
    }

    #[test]
    fn the_heap_as_areas() {
        insta::assert_snapshot!(drawn(&parser_timeline(Over::LiveBytes, 20, 3), Some("Filtered by size 8..")));
    }

    #[test]
    fn allocations_of_a_recording_that_was_cut_short() {
        let mut report = parser_timeline(Over::Allocations, 6, 9);
        report.ending.cut_short = Some("the disk is full".to_owned());
        report.ending.lost = 2;
        insta::assert_snapshot!(drawn(&report, None));
    }

    #[test]
    fn areas_lie_on_each_other_and_fill_what_is_below_the_outline() {
        let report = parser_timeline(Over::LiveBytes, 20, 2);
        let text = draw(&report, None);
        let document = parsed(&text);
        let paths = |class: &str| -> Vec<String> {
            let all = document.descendants().filter(|n| n.attribute("class") == Some(class));
            all.filter_map(|n| n.attribute("d").map(str::to_owned)).collect()
        };
        let (bands, outline) = (paths("band"), paths("outline"));
        assert_eq!((bands.len(), outline.len()), (3, 1));
        // The uppermost area begins with the outline, and each one goes back along the upper edge of the one below it.
        assert!(bands[2].starts_with(&outline[0]), "{}\n{}", bands[2], outline[0]);
        assert_eq!(document.descendants().filter(|n| n.attribute("class") == Some("moment")).count(), 20);
        let tips: Vec<_> =
            document.descendants().filter(|n| n.has_tag_name("title")).filter_map(|n| n.text()).collect();
        let peak = format!("{} B live", crate::output::text::units::count(report.total));
        assert!(tips.iter().any(|tip| tip.contains(&peak)), "{tips:?}");
    }

    #[test]
    fn nothing_and_hostile_names_are_drawn() {
        let options = TimelineOptions { by: Over::LiveBytes, window: (0, None), points: 9, bands: 99 };
        let empty = Profile::default();
        let mut builder = TimelineBuilder::new(&empty, options);
        builder.counted();
        parsed(&draw(&builder.finish(), None));

        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        let names = hostile();
        for (index, name) in names.iter().enumerate() {
            let site = b.site(process, &[&format!("f{index}")], Default::default()).stack;
            let frame = b.profile.stacks.top(site).expect("a frame").0;
            let function = b.profile.strings.intern(name);
            b.profile.frames[frame.0 as usize].lines[0].function = function;
        }
        b.profile.command = names.clone();
        b.profile.duration_ms = 99;
        let mut builder = TimelineBuilder::new(&b.profile, options);
        for site in 0..names.len() as u32 {
            let at = Moment { process: 0, thread: 0, ms: u64::from(site) };
            builder.event(at, &Event::Allocate(Call { family: 0, site, size: 100 }));
        }
        let text = draw(&builder.finish(), Some(&names[0]));
        parsed(&text);
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'));
        assert!(text.len() < 100_000, "{} bytes", text.len());
    }

    #[test]
    fn scales_have_round_numbers() {
        assert_eq!(value_ticks(1_896_101, 5), [0, 500_000, 1_000_000, 1_500_000]);
        assert_eq!((value_ticks(0, 5), value_ticks(3, 5)), (vec![0], vec![0, 1, 2, 3]));
        assert!(value_ticks(u64::MAX, 5).len() < 7);
        let story = story();
        assert!(story.iter().any(|(_, event)| matches!(event, Event::Free(Some(Block { .. })))));
    }
}
