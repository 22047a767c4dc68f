//! Answers to the page's requests: the documents of the command line's views, and a few of its own.

use anyhow::{Context, Result, bail};
use mallow_report::analysis::{Flame, FlameOptions, Least, Measure, ProfileViews, flame_changes_fitting};
use mallow_web::{Request, Response};

use super::about::About;
use super::assets;
use super::choices;
use super::document_cache::DocumentCache;
use super::flame_document::FlameDocument;
use super::ranges::{Range, Ranges, StillReading};
use super::rss_map_document::RssMapDocument;
use super::subject::PageSubject;
use crate::flags::{BaseFlags, Command, FilterFlags, FlameFlags, GoReasonsFlags, ReportFlags};
use crate::input::line_reasons::LineReasons;
use crate::input::recording::Recording;
use crate::output::exit::UsageError;
use crate::output::text::Stream;
use crate::output::{json, stdio};
use crate::views::list::Reasons;
use crate::views::report::{self, ReportOptions};
use crate::views::{blocks, diff, leaks, list, rss, timeline, top, tree};

/// A box that is narrower than this part of the whole is left out, until so many are left.
const NARROWEST: u64 = 1 << 17;
/// Boxes that a page draws without delay.
const MOST_BOXES: usize = 60_000;
/// Limit of cells of a map of pages.
const MOST_CELLS: u64 = 8192;

#[derive(Debug)]
pub struct Api {
    subject: PageSubject,
    ranges: Ranges,
    documents: DocumentCache,
    /// The process that it is of, where that is watched.
    live: Option<u32>,
    /// Why Go lines allocate. Answering runs no compiler.
    reasons: Option<LineReasons>,
}

impl Api {
    /// Answers for a subject. Begins to read its events.
    pub fn new(subject: PageSubject) -> Self {
        let ranges = Ranges::of(subject.whole());
        Self { subject, ranges, documents: DocumentCache::default(), live: None, reasons: None }
    }

    /// Adds the reasons of a file beside Go lines, where the flags name one.
    pub fn with_reasons(mut self, flags: &GoReasonsFlags) -> Result<Self> {
        let Some(path) = &flags.go_reasons else { return Ok(self) };
        let reasons = LineReasons::open(path, &self.subject.whole().profile)?;
        reasons.notes.iter().for_each(|note| stdio::notify(note));
        self.reasons = Some(reasons);
        Ok(self)
    }

    /// Answers for the state of a watched process.
    pub fn of_process(subject: PageSubject, pid: u32) -> Self {
        Self { live: Some(pid), ..Self::new(subject) }
    }

    /// The answer to a request that may be answered.
    pub fn answer(&self, request: &Request) -> Response {
        if let Some(asset) = assets::answer(request) {
            return asset;
        }
        let Some(name) = request.path().strip_prefix("/api/") else {
            return Response::error(404, "there is nothing at this address");
        };
        match name {
            "about" => document(self.about()),
            "time" => document(self.ranges.show(|time| json::data(time))),
            "alive" => Response::json("{}\n"),
            name if VIEWS.contains(&name) => self.view(name, request),
            _ => Response::error(404, &format!("there is no view like that; there is {}", VIEWS.join(", "))),
        }
    }

    /// The views of the whole recording, for those who ask for many documents of it.
    pub fn views(&self) -> ProfileViews<'_> {
        ProfileViews::of(&self.subject.whole().profile)
    }

    /// The document for an address below `/api/`, like `top?by=bytes`, once all events are read. `views` are
    /// [`Self::views`].
    pub fn ask(&self, address: &str, views: &ProfileViews<'_>) -> Result<String> {
        let request = Request::get(&format!("/api/{address}")).with_context(|| format!("no address: {address}"))?;
        match request.path().strip_prefix("/api/") {
            Some("about") => self.about(),
            Some("time") => {
                self.ranges.wait();
                self.ranges.show(|time| json::data(time))
            }
            name => self.made(name.unwrap_or_default(), &request, Some(views)),
        }
    }

    /// The document for the address of a flame graph, with boxes of less than one of these after the other left out
    /// until it fits; how many of these it took. None: it never fits. `views` are [`Self::views`].
    pub fn ask_fitting(
        &self,
        address: &str,
        views: &ProfileViews<'_>,
        minima: &[Least],
        fits: &dyn Fn(&str) -> bool,
    ) -> Result<Option<(String, usize)>> {
        let request = Request::get(&format!("/api/{address}")).with_context(|| format!("no address: {address}"))?;
        let Command::Flame(flags) = choices::flags("flame", &request, self.subject.path(), None)? else {
            bail!("{address} is no flame graph");
        };
        let options = flame_options(&flags, self.subject.whole().measure(flags.by)?);
        let (mut tried, mut fitting) = (0, None);
        let mut failure = None;
        views.flame_fitting(options, &mut |graph, options| {
            let fewer = fewer_boxes(graph, options);
            if fewer.is_some() {
                return fewer;
            }
            match json::data(&FlameDocument::of(graph)) {
                Ok(document) if fits(&document) => fitting = Some((document, tried)),
                Ok(_) => {
                    tried += 1;
                    return minima.get(tried - 1).map(|&least| FlameOptions { least, ..options });
                }
                Err(error) => failure = Some(error),
            }
            None
        });
        failure.map_or(Ok(fitting), Err)
    }

    fn about(&self) -> Result<String> {
        let before = self.subject.before().map(|before| &**before);
        json::data(&About::of(self.subject.whole(), before, self.live, self.reasons.as_ref()))
    }

    fn view(&self, name: &str, request: &Request) -> Response {
        let question = format!("{name} {:?}", request.query());
        if let Some(known) = self.documents.get(&question) {
            return Response::json(known);
        }
        let made = self.made(name, request, None);
        if let Ok(document) = &made {
            self.documents.keep(&question, document);
        }
        document(made)
    }

    /// The document of the change since the recording before, where the command compares.
    fn changes(&self, command: &Command) -> Result<Option<String>> {
        let pair = |base: &BaseFlags, filters, by| self.subject.pair(filters, by, &base.no_rule);
        Ok(Some(match command {
            Command::Top(flags) if flags.base.base.is_some() => {
                top::changes_document(flags, &*pair(&flags.base, &flags.rows.source.filters, flags.by)?)?
            }
            Command::Tree(flags) if flags.base.base.is_some() => {
                tree::changes_document(flags, &*pair(&flags.base, &flags.rows.source.filters, flags.by)?)?
            }
            Command::List(flags) if flags.base.base.is_some() => {
                list::changes_document(flags, &*pair(&flags.base, &flags.rows.source.filters, flags.by)?)?
            }
            Command::Flame(flags) if flags.base.base.is_some() => {
                let pair = pair(&flags.base, &flags.source.filters, flags.by)?;
                let graph = flame_changes_fitting(&pair.both, flame_options(flags, pair.by), &mut fewer_boxes);
                json::data(&FlameDocument::of(&graph))?
            }
            _ => return Ok(None),
        }))
    }

    /// The document of a command, for the recording that is shown, or for a range of its time. `views` are those of the
    /// whole recording, where they were made before.
    fn made(&self, name: &str, request: &Request, views: Option<&ProfileViews<'_>>) -> Result<String> {
        let range = Range::of(|name| request.parameter(name))?;
        let sums = |filters: &FilterFlags, show: &dyn Fn(&Recording) -> Result<String>| match range {
            Some(range) => self.ranges.choose(self.subject.whole(), range, filters, show),
            None => show(&*self.subject.sums(filters)?),
        };
        type Show<'a> = &'a dyn Fn(&Recording, &ProfileViews<'_>) -> Result<String>;
        let rows = |filters: &FilterFlags, show: Show<'_>| {
            sums(filters, &|part| match views.filter(|views| views.are_of(&part.profile)) {
                Some(views) => show(part, views),
                None => show(part, &ProfileViews::of(&part.profile)),
            })
        };
        let before = self.subject.before().map(|before| before.path());
        // The map is drawn of the same choices as the account.
        let view = if name == RSS_MAP { "rss" } else { name };
        let command = choices::flags(view, request, self.subject.path(), before)?;
        if let Some(changes) = self.changes(&command)? {
            if range.is_some() {
                bail!(UsageError("a range of time is of one recording: leave base out".to_owned()));
            }
            return Ok(changes);
        }
        let reasons = self.reasons.as_ref().map_or(Reasons::None, Reasons::File);
        match &command {
            Command::Top(flags) => rows(&flags.rows.source.filters, &|part, views| top::document(flags, part, views)),
            Command::Tree(flags) => rows(&flags.rows.source.filters, &|part, views| tree::document(flags, part, views)),
            Command::List(flags) => {
                rows(&flags.rows.source.filters, &|part, views| list::document(flags, part, views, reasons))
            }
            Command::Flame(flags) => rows(&flags.source.filters, &|part, views| {
                let options = flame_options(flags, part.measure(flags.by)?);
                let graph = views.flame_fitting(options, &mut fewer_boxes);
                json::data(&FlameDocument::of(&graph))
            }),
            Command::Report(flags) => report_document(flags, &*self.subject.sums(&flags.rows.source.filters)?),
            Command::Leaks(flags) => leaks::document(flags, &*self.subject.sums(&flags.rows.source.filters)?),
            Command::Timeline(flags) => timeline::document(flags, &*self.subject.part(&flags.rows.source.filters)?),
            Command::Sizes(flags) => blocks::sizes_document(&*self.subject.part(&flags.source.filters)?),
            Command::Lifetimes(flags) => blocks::lifetimes_document(&*self.subject.part(&flags.source.filters)?),
            Command::Threads(flags) => blocks::threads_document(flags, &*self.subject.part(&flags.source.filters)?),
            Command::Diff(flags) => {
                let [before, after] = self.subject.sides(&flags.filters)?;
                diff::document(flags, &before, &after)
            }
            Command::Rss(flags) if name == RSS_MAP => {
                json::data(&RssMapDocument::of(&rss::map(flags, self.subject.whole(), MOST_CELLS)?))
            }
            Command::Rss(flags) => rss::document(flags, self.subject.whole()),
            _ => bail!("this is no view of the page"),
        }
    }
}

/// Views of the page, by the names of the commands, and the map of the heap's pages.
const VIEWS: [&str; 13] = [
    "diff",
    "report",
    "top",
    "tree",
    "list",
    "leaks",
    "timeline",
    "sizes",
    "lifetimes",
    "threads",
    "rss",
    "flame",
    RSS_MAP,
];
const RSS_MAP: &str = "rss-map";

fn report_document(flags: &ReportFlags, recording: &Recording) -> Result<String> {
    let (view, least) = (&flags.rows.view, flags.rows.least.min);
    report::render(recording, &ReportOptions { view, all: flags.all, stacks: flags.stacks, least, stream: Stream::Out })
}

fn flame_options(flags: &FlameFlags, by: Measure) -> FlameOptions {
    let least = flags.least.min.unwrap_or(Least::Amount(0));
    FlameOptions { by, callers: flags.callers, raw: flags.raw, parts: NARROWEST, least }
}

/// Options with fewer parts for a graph with more boxes than a page draws; None: it has few enough.
fn fewer_boxes(graph: &Flame, options: FlameOptions) -> Option<FlameOptions> {
    let too_many = graph.boxes.len() > MOST_BOXES && options.parts > 1;
    too_many.then_some(FlameOptions { parts: options.parts / 4, ..options })
}

fn document(made: Result<String>) -> Response {
    made.map_or_else(|error| failure(&error), Response::json)
}

/// The response to an error: the user's matter where a view has nothing for a choice, the server's where a file cannot
/// be read.
fn failure(error: &anyhow::Error) -> Response {
    if error.is::<StillReading>() {
        let text = serde_json::json!({ "error": error.to_string(), "state": "reading" });
        return Response::json(format!("{text}\n")).with_status(409);
    }
    let status = match error {
        _ if error.is::<UsageError>() => 400,
        _ if error.chain().any(|cause| cause.is::<std::io::Error>()) => 500,
        _ => 422,
    };
    Response::error(status, &format!("{error:#}"))
}
