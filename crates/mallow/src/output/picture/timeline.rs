//! The heap over time: areas, one on the other, with tooltips. Complete without its script,
//! which fits it to the window.

use std::collections::BTreeMap;
use std::fmt::Write;

use mallow_report::analysis::{Band, Over, Timeline};
use mallow_report::names;

use super::flame::fitting;
use super::{Note, Picture, harmless, limits, palette};
use crate::output::text::time_axis::{
    highest, highest_in_words, moment, named_ticks, on_scale, resolution, subject, value,
};
use crate::output::text::units::{count, of, percent, span};
use crate::output::text::{Look, clean, location};

/// Points, unless more are asked for: two pixels each.
pub const POINTS: usize = 550;
/// Bands: as many as there are colours.
pub const BANDS: usize = palette::FILLS.len();

const WIDTH: f64 = 1200.0;
/// Left edge of the legend.
const EDGE: f64 = 12.0;
/// Left of the chart, and its width where no script fits it to the window.
const LEFT: f64 = 84.0;
const CHART: f64 = 1100.0;
/// The widths of a chart that there are names of times for, with the classes of those.
const WIDTHS: [(f64, &str, usize); 3] = [(CHART, "l", 12), (500.0, "m", 8), (260.0, "s", 4)];
const HEIGHT: f64 = 380.0;
const LINE: f64 = 18.0;
/// The colours of bands from the lowest up: neighbours differ in lightness too, for printers.
const BAND_ORDER: [usize; palette::FILLS.len()] = [4, 1, 0, 6, 2, 7, 5, 3];
const CHARACTER: f64 = 7.3;

pub fn draw(report: &Timeline, filters: Option<&str>) -> String {
    let command = report.command.join(" ");
    let command = if command.is_empty() { "(command unknown)".to_owned() } else { clean(&command).into_owned() };
    let notes = notes(report, filters);
    let top = 70.0 + LINE * notes.len() as f64;
    let legend = legend(report);
    let height = top + HEIGHT + 60.0 + LINE * legend.len() as f64;
    let chart = Chart::of(report);

    let mut picture = Picture::new(WIDTH as u32, height as u32, &command);
    picture.style(include_str!("timeline.css"));
    picture.paper(None);
    picture.open("g", &[("id", "head")]);
    text(&mut picture, "title", EDGE, 24.0, "start", &fitting(&command, (WIDTH - 2.0 * EDGE) * 0.74));
    for (index, (class, note)) in notes.iter().enumerate() {
        text(&mut picture, class, EDGE, 44.0 + LINE * index as f64, "start", note);
    }
    picture.close();
    picture.line();
    picture.open("g", &[("id", "content")]);
    chart.draw(&mut picture, top);
    for (index, entry) in legend.iter().enumerate() {
        let y = top + HEIGHT + 52.0 + LINE * index as f64;
        if let Some(fill) = &entry.fill {
            let class = format!("swatch {fill}");
            let (x, y) = (number(EDGE), number(y - 10.0));
            let size = [("width", "12"), ("height", "12")];
            picture.empty("rect", &[&[("class", class.as_str()), ("x", &x), ("y", &y)], &size[..]].concat());
        }
        let (class, name) = if entry.fill.is_some() { ("legend", "legend name") } else { ("note", "note") };
        text(&mut picture, class, EDGE + 20.0, y, "start", &entry.letter);
        text(&mut picture, class, EDGE + 130.0, y, "end", &entry.amount);
        text(&mut picture, class, EDGE + 190.0, y, "end", &entry.share);
        text(&mut picture, name, EDGE + 204.0, y, "start", &fitting(&entry.name, WIDTH - 2.0 * EDGE - 204.0));
    }
    picture.close();
    picture.line();
    picture.script(&format!("\nconst WIDTH = {WIDTH};\n"), include_str!("timeline.js"));
    picture.finish()
}

/// Notes on what is shown and what it lacks, each a class and a line.
fn notes(report: &Timeline, filters: Option<&str>) -> Vec<Note> {
    let most = highest_in_words(report, false);
    let what = match (report.by, report.at_end) {
        (Over::Allocations, _) => format!("{}, at most {most}", of(report.total, "allocation")),
        (_, end) => format!("at most {most}, {} at the end", value(report, end.unwrap_or(0), false)),
    };
    let mut notes = vec![("note", format!("{}: {what}; {}", subject(report), resolution(report)))];
    notes.extend(limits(&report.ending, filters));
    notes
}

struct Entry {
    /// Class of its swatch; None for words alone.
    fill: Option<String>,
    letter: String,
    amount: String,
    share: String,
    name: String,
}

/// Bands as they lie on each other, the uppermost first, with what they have of the highest point, or of all
/// allocations.
fn legend(report: &Timeline) -> Vec<Entry> {
    let part = |values: &[u64]| match report.by {
        Over::LiveBytes | Over::Live => values.get(report.highest_point).copied().unwrap_or(0),
        Over::Allocations => values.iter().fold(0u64, |sum, n| sum.saturating_add(*n)),
    };
    let entry = |fill: String, letter: String, values: &[u64], name: String| Entry {
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
        all.push(entry("rest".to_owned(), String::new(), &report.others, of(more, "other function")));
    }
    for (index, band) in report.bands.iter().enumerate().rev() {
        all.push(entry(fill(index), letter(index), &band.values, described(band)));
    }
    all
}

/// The class of a band's colour.
fn fill(band: usize) -> String {
    format!("c{}", BAND_ORDER[band % BAND_ORDER.len()])
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

/// Text in the chart: `x` of its width, and so many pixels to the right.
fn placed(picture: &mut Picture, class: &str, x: f64, right: f64, y: f64, anchor: &str, words: &str) {
    let (x, right, y) = (share(x), number(right), number(y));
    picture.label(&[("class", class), ("x", &x), ("dx", &right), ("y", &y), ("text-anchor", anchor)], words);
    picture.line();
}

/// A part of the chart's width.
fn share(x: f64) -> String {
    number(x / CHART * 100.0) + "%"
}

fn number(n: f64) -> String {
    let text = format!("{n:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The chart in a coordinate system of its own: a picture as wide as its window stretches it.
struct Chart<'a> {
    report: &'a Timeline,
    /// Upper end of the value axis.
    most: u64,
    wide: f64,
}

impl<'a> Chart<'a> {
    fn of(report: &'a Timeline) -> Self {
        let most = report.points.iter().map(|p| p.value).max().unwrap_or(0);
        Self { report, most, wide: CHART / report.points.len().max(1) as f64 }
    }

    /// Scales and areas, its upper edge at `top`.
    fn draw(&self, picture: &mut Picture, top: f64) {
        let (x, y, width, height) = (number(LEFT), number(top), number(CHART), number(HEIGHT));
        let size = [("width", width.as_str()), ("height", &height)];
        picture.open("svg", &[&[("id", "plot"), ("x", &x), ("y", &y)], &size[..]].concat());
        picture.line();
        self.scales(picture);
        let view = format!("0 0 {width} {height}");
        let stretched = [("viewBox", view.as_str()), ("preserveAspectRatio", "none"), ("width", "100%")];
        let stretched = [&stretched[..], &[("height", &height)]].concat();
        picture.open("svg", &stretched);
        picture.line();
        self.areas(picture);
        picture.close();
        picture.line();
        self.letters(picture);
        self.peak(picture);
        picture.open("svg", &stretched);
        picture.line();
        self.moments(picture);
        picture.close();
        picture.close();
        picture.line();
    }

    fn x(&self, point: usize) -> f64 {
        point as f64 * self.wide
    }

    fn y(&self, n: u64) -> f64 {
        HEIGHT - n as f64 / self.most.max(1) as f64 * HEIGHT
    }

    fn scales(&self, picture: &mut Picture) {
        for n in value_ticks(self.most, 5) {
            let y = number(self.y(n));
            picture.empty("line", &[("class", "grid"), ("x1", "0"), ("x2", "100%"), ("y1", &y), ("y2", &y)]);
            text(picture, "scale", -8.0, self.y(n) + 4.0, "end", &on_scale(self.report, n));
        }
        // Which times have room depends on the width.
        let mut ticks: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for (width, class, most) in WIDTHS {
            let place = |ms: u64| {
                let (middle, half) = (self.time_x(ms) / CHART * width, span(ms).len() as f64 * CHARACTER / 2.0 + 6.0);
                (middle - half, middle + half)
            };
            for ms in named_ticks(self.report, most, width + 16.0, place) {
                ticks.entry(ms).or_default().push(class);
            }
        }
        let (bottom, below) = (number(HEIGHT), number(HEIGHT + 5.0));
        for (ms, classes) in ticks {
            let x = share(self.time_x(ms));
            picture.open("g", &[("class", &format!("tick {}", classes.join(" ")))]);
            picture.empty("line", &[("class", "axis"), ("x1", &x), ("x2", &x), ("y1", &bottom), ("y2", &below)]);
            placed(picture, "scale", self.time_x(ms), 0.0, HEIGHT + 19.0, "middle", &span(ms));
            picture.close();
        }
        for (x2, y1) in [("0", "0"), ("100%", &bottom)] {
            picture.empty("line", &[("class", "axis"), ("x1", "0"), ("x2", x2), ("y1", y1), ("y2", &bottom)]);
        }
        picture.line();
    }

    /// Place of a millisecond's begin: between points that are longer than one, too.
    fn time_x(&self, ms: u64) -> f64 {
        let point = self.report.point_of(ms);
        let begun = ms.saturating_sub(self.report.points[point].ms) as f64 / self.report.point_ms.max(1) as f64;
        self.x(point) + begun.min(1.0) * self.wide
    }

    /// For each level, the sums of the bands below it by point.
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
            let mut path = format!("M0 {}", number(self.y(pair[1][0])));
            self.steps(&mut path, &pair[1], false);
            let _ = write!(path, "V{}", number(self.y(pair[0].last().copied().unwrap_or(0))));
            self.steps(&mut path, &pair[0], true);
            path.push('Z');
            let (fill, name) = match self.report.bands.get(index) {
                Some(band) if index + 1 < last => (fill(index), format!("{} {}", letter(index), short(band))),
                _ => ("rest".to_owned(), "others".to_owned()),
            };
            picture.open("path", &[("class", &format!("band {fill}")), ("d", &path)]);
            picture.open("title", &[]);
            picture.words(&name);
            picture.close();
            picture.close();
            picture.line();
        }
        let mut path = format!("M0 {}", number(self.y(levels[last][0])));
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
                placed(picture, "letter", self.x(at) + self.wide / 2.0, 0.0, y, "middle", &letter(index));
            }
        }
    }

    fn peak(&self, picture: &mut Picture) {
        if self.report.total == 0 {
            return;
        }
        let x = self.x(self.report.highest_point) + self.wide / 2.0;
        picture.open("svg", &[("x", &share(x)), ("overflow", "visible")]);
        picture.empty("path", &[("class", "peak"), ("d", "M0 -2l-5 -8h10Z")]);
        picture.close();
        let (side, anchor) = if x < CHART / 2.0 { (10.0, "start") } else { (-10.0, "end") };
        placed(picture, "peak", x, side, -3.0, anchor, &highest(self.report, false));
    }

    /// Tooltips of the points, over all of their height.
    fn moments(&self, picture: &mut Picture) {
        let height = number(HEIGHT);
        let report = self.report;
        for (at, point) in report.points.iter().enumerate() {
            let (x, width) = (number(self.x(at)), number(self.wide));
            picture.open("rect", &[("class", "moment"), ("x", &x), ("y", "0"), ("width", &width), ("height", &height)]);
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
    use crate::output::picture::testing::{bare, hostile, parsed};
    use crate::output::text::time_axis::testing::{parser_timeline, story};

    fn drawn(report: &Timeline, filters: Option<&str>) -> String {
        bare(&draw(report, filters))
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
            let all = document.descendants().filter(|n| {
                n.has_tag_name("path") && n.attribute("class").and_then(|c| c.split(' ').next()) == Some(class)
            });
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
