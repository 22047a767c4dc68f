//! A recording, or a profile of another tool, ready to be shown.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use mallow_capture::recording::{Choice, PackError, Progress, ReadError, Reader, SourceFile};
use mallow_profile::{Event, HeapMap, Module, Moment, Profile, Quantity};
use mallow_report::analysis::{LifeGrid, LifeGridBuilder, Measure, Narrowed, name_emergency_pool, narrow};
use mallow_symbols::{
    ModuleSummary, Options, Packages, SourceError, SourceText, Summary, Symbolizer, remedies, source_text,
    symbolize_jit_all,
};

use super::coverage::{self, Document, MEASURES};
use super::embedded::Embedded;
use super::file::{self, File, cannot_read};
use super::filters::{self, Filters};
use super::name_files;
use super::names::{self, MissingNames};
use crate::flags::{By, FilterFlags, NameFlags, SourceFlags};
use crate::output::json::{self, JsonDocument};
use crate::output::progress::Bar;
use crate::output::stdio;
use crate::output::text::Look;

#[derive(Debug)]
pub struct Recording {
    /// The content. Frames have their names, as far as they can be had here.
    pub profile: Profile,
    /// Modules that lack names, and why.
    pub names: Summary,
    /// Filters that chose this part of the recording.
    pub filters: Filters,
    /// The file that it was read from.
    path: PathBuf,
    /// The file's events; None for one that was not read from a file, and for profiles of other tools.
    events: Option<Arc<Mutex<Events>>>,
    /// Names and sources for reading on another machine.
    embedded: Arc<Embedded>,
    /// Sources of the names.
    options: Options,
    /// Patterns that changed nothing, each a sentence.
    unmatched: Vec<String>,
    /// The user knows which programs were not recorded.
    pub(super) gaps_reported: bool,
}

/// The file with the events, and which of them are chosen.
type Events = (Reader, Choice);

/// A second reader of a recording's events, for a thread of its own.
#[derive(Debug)]
pub struct LifeReader {
    reader: Reader,
    choice: Choice,
    builder: LifeGridBuilder,
    path: PathBuf,
}

impl LifeReader {
    /// The grid. None: it was stopped. `progress` goes from 0 to 1.
    pub fn read(mut self, progress: impl Fn(f64), stop: &AtomicBool) -> Result<Option<LifeGrid>> {
        let builder = &mut self.builder;
        let mut show = |now: Progress| progress(now.done as f64 / now.all.max(1) as f64);
        let stopped = || stop.load(Ordering::Relaxed);
        let each = |_, number, at, event| builder.event(number, at, &event);
        let read = self.reader.visit_until(&mut self.choice, &mut show, stopped, each);
        read.with_context(|| cannot_read(&self.path))?;
        Ok((!stop.load(Ordering::Relaxed)).then(|| self.builder.finish()))
    }
}

/// The lines above the text of a view.
pub struct Heading {
    text: String,
    /// The look of what comes below: the terminal has fewer rows.
    pub below: Look,
}

impl Heading {
    /// The text of a view with these lines above it.
    pub fn above(self, text: &str) -> String {
        self.text + text
    }
}

impl Recording {
    /// Looks up the names of a profile's frames, in the files that its processes had loaded and in what JITs left
    /// behind. Not those of a recording that carries its names: files of this machine may be other ones.
    pub fn of(profile: Profile) -> Self {
        Self::below(profile, None)
    }

    /// The recording of a profile whose processes have this root directory, if they have another one.
    pub fn below(profile: Profile, root: Option<&Path>) -> Self {
        Self::by(profile, Options { root: root.map(Path::to_owned), ..Options::default() })
    }

    /// The recording of a profile, with names from where the options say.
    fn by(mut profile: Profile, options: Options) -> Self {
        let names = profile.names.take();
        let embedded = Arc::new(Embedded::of(names.is_some()));
        let names = names.unwrap_or_else(|| {
            let names = Symbolizer::new(options.clone()).symbolize_all(&mut profile);
            symbolize_jit_all(&mut profile);
            names
        });
        name_emergency_pool(&mut profile);
        Self { embedded, options, ..Self::named(profile, names) }
    }

    /// A profile whose names were looked up.
    pub fn named(profile: Profile, names: Summary) -> Self {
        let (filters, embedded) = (Filters::default(), Arc::default());
        Self {
            profile,
            names,
            filters,
            path: PathBuf::new(),
            events: None,
            embedded,
            options: Options::default(),
            unmatched: Vec::new(),
            gaps_reported: false,
        }
    }

    /// The recording with the path at which it is now.
    pub fn at(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// The recording, after the user has read what was not recorded.
    pub fn with_gaps_reported(self) -> Self {
        Self { gaps_reported: true, ..self }
    }

    /// The whole recording at this path, with names from where the flags say.
    pub fn read_with(path: &Path, names: &NameFlags) -> Result<Self> {
        Self::open_at(path, &FilterFlags { names: names.clone(), ..FilterFlags::default() })
    }

    /// The whole recording at this path.
    pub fn read(path: &Path) -> Result<Self> {
        Self::open_at(path, &FilterFlags::default())
    }

    /// The recording that the flags name, or the newest one here, which is then named on standard error.
    pub fn open(flags: &SourceFlags) -> Result<Self> {
        let recording = Self::open_at(&Self::path_of(flags)?, &flags.filters)?;
        recording.warn_of_unmatched();
        Ok(recording)
    }

    pub fn path_of(flags: &SourceFlags) -> Result<PathBuf> {
        Self::path_or_newest(flags.file.as_deref())
    }

    /// `path`, or that of the newest recording here, which is then named on standard error.
    pub fn path_or_newest(path: Option<&Path>) -> Result<PathBuf> {
        match path {
            Some(path) => Ok(path.to_owned()),
            None => {
                let newest = file::newest(Path::new("."))?;
                stdio::notify(&format!("showing {}, the newest recording here", newest.display()));
                Ok(newest)
            }
        }
    }

    /// Says on standard error which patterns changed nothing.
    pub fn warn_of_unmatched(&self) {
        self.unmatched.iter().for_each(|text| stdio::notify(text));
    }

    /// The lines that come before the text of any view: what the numbers lack, and which part of the recording they are
    /// of.
    pub fn notices(&self) -> Vec<String> {
        self.filters.notices(self.incomplete())
    }

    /// Gaps and filters as text above a view.
    pub fn first_lines(&self, look: &Look) -> String {
        self.filters.first_lines(self.incomplete(), look)
    }

    /// The text of a view below these lines.
    pub fn above(&self, text: &str, look: &Look) -> String {
        self.first_lines(look) + text
    }

    /// [`Recording::first_lines`], for a view whose text depends on the rows that they leave.
    pub fn heading(&self, look: &Look) -> Heading {
        let text = self.first_lines(look);
        let taken = text.lines().count();
        Heading { below: Look { height: look.height.map(|height| height.saturating_sub(taken)), ..*look }, text }
    }

    /// Two recordings, to compare them. One that a filter on stacks leaves nothing of is empty; where that is so of
    /// both, it is a mistake.
    pub fn pair(paths: [&Path; 2], flags: &FilterFlags) -> Result<[Self; 2]> {
        let blocks = FilterFlags { focus: None, ignore: None, hide: None, ..flags.clone() };
        let [before, after] = paths;
        let mut pair = [Self::open_at(before, &blocks)?, Self::open_at(after, &blocks)?];
        let narrowing = flags.narrowing();
        if narrowing.is_none() {
            return Ok(pair);
        }
        let mut matched = [false; 3];
        let mut left = false;
        for recording in &mut pair {
            let whole = std::mem::take(&mut recording.profile);
            recording.filters = Filters::of(flags, &whole);
            let narrowed = narrow(whole, &narrowing);
            for (any, this) in matched.iter_mut().zip(narrowed.matched) {
                *any |= this;
            }
            left |= !narrowed.profile.sites.is_empty();
            recording.profile = narrowed.profile;
        }
        if !left {
            bail!(filters::nothing_left(flags, &Self::open_at(after, &blocks)?.profile, matched[0]));
        }
        pair[1].unmatched = filters::unmatched(flags, matched);
        Ok(pair)
    }

    /// The part of a recording that the filters leave.
    pub fn open_at(path: &Path, flags: &FilterFlags) -> Result<Self> {
        let options = name_files::options(&flags.names)?;
        let (mut recording, mut events) = match file::read(path, &options, &flags.sample_type)? {
            File::Recording(mut reader, profile) => {
                let filters = Filters::of(flags, &profile);
                let (profile, chosen) = match flags.selects() {
                    true => file::select(path, &mut reader, profile, flags)?,
                    false => {
                        let all = Choice::all(&profile);
                        (profile, all)
                    }
                };
                (Self { filters, ..Self::by(profile, options.clone()) }, Some((reader, chosen)))
            }
            File::Foreign(profile, names) => {
                let filters = Filters::of(flags, &profile);
                let recording = Self { filters, ..Self::named(profile, names) };
                if flags.selects() {
                    recording.require(Quantity::Events, "--focus, --ignore and --hide choose stacks")?;
                }
                (recording, None)
            }
        };
        match recording.is_packed() && options.given.is_some() {
            true => {
                stdio::notify(&format!("{} carries its names: --binary and --symfs change nothing", path.display()));
            }
            false => name_files::warn_of_unused(&options, path),
        }
        if events.is_some() && !flags.sample_type.is_empty() {
            stdio::notify(&format!("{} is a recording: --sample-type changes nothing", path.display()));
        }
        let narrowing = flags.narrowing();
        if !narrowing.is_none() {
            let Narrowed { profile, sites, matched } = narrow(recording.profile, &narrowing);
            if profile.sites.is_empty() {
                let blocks = FilterFlags { focus: None, ignore: None, hide: None, ..flags.clone() };
                bail!(filters::nothing_left(flags, &Self::open_at(path, &blocks)?.profile, matched[0]));
            }
            recording.unmatched = filters::unmatched(flags, matched);
            if let Some((_, chosen)) = &mut events {
                chosen.narrow(&sites, narrowing.focus.is_none() && narrowing.ignore.is_none());
            }
            recording.profile = profile;
        }
        Ok(Self { path: path.to_owned(), events: events.map(|events| Arc::new(Mutex::new(events))), ..recording })
    }

    /// The recording with another profile of the same file: of blocks that were chosen of this one.
    pub fn with_profile(&self, profile: Profile) -> Self {
        Self {
            profile,
            names: self.names.clone(),
            filters: self.filters.clone(),
            path: self.path.clone(),
            events: self.events.clone(),
            embedded: Arc::clone(&self.embedded),
            options: self.options.clone(),
            unmatched: Vec::new(),
            gaps_reported: self.gaps_reported,
        }
    }

    /// The stacks that filters leave of it, for views that read no events. Precondition: they select no single blocks.
    pub fn narrowed(&self, flags: &FilterFlags) -> Result<Self> {
        let Narrowed { profile, matched, .. } = narrow(self.profile.clone(), &flags.narrowing());
        if profile.sites.is_empty() {
            bail!(filters::nothing_left(flags, &self.profile, matched[0]));
        }
        let filters = Filters::of(flags, &self.profile);
        Ok(Self { filters, ..self.with_profile(profile) })
    }

    /// Reads all events for the grid that answers ranges of time, by a reader of its own. None: there are none in this
    /// file.
    pub fn life_reader(&self) -> Result<Option<LifeReader>> {
        let Some(events) = &self.events else { return Ok(None) };
        let (reader, choice) = &*locked(events);
        let reader = reader.reopen(&self.path).with_context(|| cannot_read(&self.path))?;
        let builder = LifeGridBuilder::new(&self.profile);
        Ok(Some(LifeReader { reader, choice: choice.clone(), builder, path: self.path.clone() }))
    }

    /// The file's path; empty where it was not read from one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `each` with every event, in their order. Sites, processes and threads are named by their numbers in
    /// [`Recording::profile`]; a process that the recording did not see end has no [`Event::EndProcess`].
    pub fn events(&self, mut each: impl FnMut(Moment, Event)) -> Result<()> {
        self.visit(|_, at, event| each(at, event))
    }

    /// Visits the events at the times that peaks are dated by: the latest one so far, of events that are filtered out,
    /// too.
    pub fn events_by_clock(&self, mut each: impl FnMut(Moment, Event)) -> Result<()> {
        self.visit(|clock, at, event| each(Moment { ms: clock, ..at }, event))
    }

    /// Visits the events of [`Recording::events`], with the number of allocations before each, of those that are
    /// filtered out, too: the number of the block that an allocation makes.
    pub fn events_numbered(&self, mut each: impl FnMut(u64, Moment, Event)) -> Result<()> {
        self.visit_all(|_, number, at, event| each(number, at, event))
    }

    fn visit(&self, mut each: impl FnMut(u64, Moment, Event)) -> Result<()> {
        self.visit_all(|clock, _, at, event| each(clock, at, event))
    }

    fn visit_all(&self, each: impl FnMut(u64, u64, Moment, Event)) -> Result<()> {
        self.require(Quantity::Events, "only recordings of mallow hold them")?;
        let events = self.events.as_ref().context("the events are in the recording's file: name it")?;
        let waiting = Bar::of("reading events");
        let (reader, chosen) = &mut *locked(events);
        let visited = reader.visit_numbered(chosen, &mut |progress| waiting.show(progress), each);
        visited.with_context(|| cannot_read(&self.path))
    }

    /// Pages and live blocks of a footprint, by its index. None: the recording has none of it.
    pub fn heap_map(&self, footprint: usize) -> Result<Option<HeapMap>> {
        let Some(events) = &self.events else { return Ok(None) };
        let read = locked(events).0.heap_map(&self.profile, footprint);
        read.with_context(|| cannot_read(&self.path))
    }

    /// The measure that a view ranks by: the one asked for, which must be available, or else the first available.
    pub fn measure(&self, by: Option<By>) -> Result<Measure> {
        let available: Vec<By> =
            MEASURES.into_iter().filter(|&by| self.profile.has(Measure::from(by).quantity())).collect();
        match by {
            Some(by) => {
                let names: Vec<_> = available.iter().map(By::to_string).collect();
                let measure = Measure::from(by);
                self.require(measure.quantity(), &format!("there is --by {}", names.join(", ")))?;
                Ok(measure)
            }
            None => match available.first() {
                Some(&by) => Ok(by.into()),
                None => bail!("this {} has no measure to show", self.kind()),
            },
        }
    }

    /// Fails where the quantity is missing, and says what can be done instead.
    pub fn require(&self, quantity: Quantity, instead: &str) -> Result<()> {
        if !self.profile.has(quantity) {
            bail!("this {} has no {quantity}; {instead}", self.kind());
        }
        Ok(())
    }

    /// Kind of the file in words.
    pub fn kind(&self) -> String {
        self.profile.origin.as_ref().map_or("recording".to_owned(), coverage::kind)
    }

    /// The report as JSON. Of a profile of another tool, it names the format and leaves out what the profile lacks.
    /// Where filters are on, it has them too.
    pub fn json(&self, report: &impl JsonDocument) -> Result<String> {
        json::document(&Document::of(report, &self.profile, &self.filters)?)
    }

    /// Prints the same without white space: a report of any size needs little memory.
    pub fn print_json(&self, report: &impl JsonDocument) -> Result<()> {
        json::print(&Document::of(report, &self.profile, &self.filters)?)
    }

    /// The line that [`Recording::print_json`] prints.
    pub fn json_line(&self, report: &impl JsonDocument) -> Result<String> {
        json::line(&Document::of(report, &self.profile, &self.filters)?)
    }

    /// True for a recording that carries its names.
    pub fn is_packed(&self) -> bool {
        self.embedded.names
    }

    /// Sources of the names.
    pub fn name_options(&self) -> &Options {
        &self.options
    }

    /// Has the profile carry its names from now on, with remedies for those that are missing: who reads it elsewhere
    /// has no other way to know.
    pub fn keep_names(&mut self) {
        if !self.is_packed() {
            let modules = &self.profile.modules;
            let all = self.names.modules.iter();
            let summaries: Vec<_> = all.filter_map(|s| Some((modules.get(s.module.0 as usize)?, s))).collect();
            let found = remedies(&summaries);
            self.names.modules.iter_mut().zip(found).for_each(|(summary, remedy)| summary.remedy = remedy);
        }
        self.profile.names = Some(self.names.clone());
    }

    /// Writes it anew, names, sources and all; see [`mallow_capture::recording::Reader::pack`]. Precondition: it is a
    /// recording of mallow's, and nothing was filtered out.
    pub fn pack<W: Write>(&self, sources: &mut dyn Iterator<Item = SourceFile>, to: W) -> Result<W, PackError> {
        let none = || PackError::Read(ReadError::NotARecording);
        locked(self.events.as_ref().ok_or_else(none)?).0.pack(&self.profile, sources, to)
    }

    /// The sources that the recording carries.
    pub fn embedded_sources(&self) -> Result<Vec<SourceFile>> {
        self.read_sources().with_context(|| format!("cannot read {}", self.path().display()))
    }

    fn read_sources(&self) -> Result<Vec<SourceFile>, ReadError> {
        self.events.as_ref().map_or(Ok(Vec::new()), |events| locked(events).0.sources())
    }

    /// The text of a source file, by its name in a frame's lines: what the recording carries, else what lies here.
    /// `directories` are those that the user names, for sources that lie elsewhere than they did when the program was
    /// built.
    pub fn source_text(&self, file: &str, directories: &[PathBuf]) -> Result<SourceText, SourceError> {
        match self.embedded.source(file, || self.read_sources()) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => source_text(file, directories),
            Err(error) => Err(SourceError::Unreadable(self.path().to_owned(), io::Error::other(error.to_string()))),
        }
    }

    /// Missing names of the modules with these paths, in the order of the paths.
    pub fn lacking(&self, paths: &[&str]) -> Vec<MissingNames> {
        self.with_fetch(MissingNames::all(self.summaries_of(paths)))
    }

    /// Missing names of all modules.
    pub fn lacking_all(&self) -> Vec<MissingNames> {
        self.with_fetch(MissingNames::all(self.modules()))
    }

    fn with_fetch(&self, mut missing: Vec<MissingNames>) -> Vec<MissingNames> {
        if !self.is_packed() {
            MissingNames::offer_fetch(&mut missing, &self.path, self.modules());
            missing.sort_by_key(|missing| missing.fetch.is_none());
        }
        missing
    }

    /// Begins to look up what [`Recording::lacking_of`] may have to say.
    pub fn ask_for_packages(&self) -> Packages {
        let unknown = self.modules().filter(|(_, summary)| names::lacks(summary) && summary.remedy.is_none());
        Packages::ask(&unknown.collect::<Vec<_>>())
    }

    /// Missing names as [`Recording::lacking`] has them, by a question that was asked before other work.
    pub fn lacking_of(&self, paths: &[&str], asked: Packages) -> Vec<MissingNames> {
        if paths.is_empty() {
            return Vec::new();
        }
        self.with_fetch(MissingNames::with(self.summaries_of(paths), |modules| asked.remedies(modules)))
    }

    /// Paths of the modules whose inlined functions have no names.
    pub fn without_inlined(&self) -> Vec<&str> {
        self.modules()
            .filter(|(_, summary)| names::lacks_inlined(summary))
            .map(|(module, _)| module.path.as_str())
            .collect()
    }

    /// Files with functions on call paths, and what is known of their names.
    pub fn modules(&self) -> impl Iterator<Item = (&Module, &ModuleSummary)> {
        let modules = &self.profile.modules;
        self.names.modules.iter().filter_map(|s| Some((modules.get(s.module.0 as usize)?, s)))
    }

    /// Of modules, and of programs by the names by which they were executed: stacks show these.
    fn summaries_of(&self, paths: &[&str]) -> Vec<(&Module, &ModuleSummary)> {
        let executed = |path: &str| self.profile.processes.iter().find(|process| process.executed_as == path);
        let mut files: Vec<&str> = Vec::new();
        for path in paths {
            let file = executed(path).map_or(*path, |process| process.executable.as_str());
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files.iter().filter_map(|file| self.modules().find(|(module, _)| module.path == *file)).collect()
    }
}

/// A reader that failed reports it again: what a panic left of it is no worse.
fn locked(events: &Mutex<Events>) -> MutexGuard<'_, Events> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Measure, overview};
    use mallow_report::testing::parser;

    use mallow_profile::{Origin, Quantities};

    use super::*;

    fn heap_profile() -> Recording {
        let mut profile = parser();
        let quantities = Quantities::of(&[Quantity::AllocatedBytes, Quantity::Live, Quantity::LiveBytes]);
        profile.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: Some(524_288) });
        Recording::of(profile)
    }

    #[test]
    fn the_first_available_measure_is_the_default() {
        let recording = heap_profile();
        assert_eq!(recording.measure(None).expect("a measure"), Measure::Bytes);
        assert_eq!(recording.measure(Some(By::Live)).expect("available"), Measure::Live);
        assert_eq!(Recording::of(parser()).measure(None).expect("a measure"), Measure::Allocations);
    }

    #[test]
    fn what_is_missing_is_refused_with_what_is() {
        let error = heap_profile().measure(Some(By::Temporary)).expect_err("missing").to_string();
        assert_eq!(error, "this pprof profile has no temporary allocations; there is --by bytes, live");
    }

    #[test]
    fn json_leaves_out_what_is_missing() {
        let recording = heap_profile();
        let report = overview(&recording.profile, 3);
        let document = Document::of(&report, &recording.profile, &recording.filters).expect("JSON");
        let json = serde_json::to_value(document).expect("JSON");
        assert_eq!((json["format"].as_str(), json["sampled_bytes"].as_u64()), (Some("pprof"), Some(524_288)));
        assert!(
            json["missing"].as_array().is_some_and(|quantities| quantities.contains(&"temporary allocations".into()))
        );
        assert!(json["allocated_bytes"].is_u64() && json["live"].is_u64());
        for key in ["allocations", "remaining", "temporary", "peak_bytes", "duration_ms", "families", "exit_status"] {
            assert!(json.get(key).is_none(), "{key}");
        }
        let site = &json["largest"][0]["largest"][0];
        assert!(site["allocated_bytes"].is_u64() && site.get("allocations").is_none(), "{site}");
    }
}
