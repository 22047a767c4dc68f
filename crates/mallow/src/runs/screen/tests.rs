use mallow_report::analysis::sampled::{Estimate, Growth, Verdict};
use mallow_report::analysis::{
    Frame, MemoryPart, MemoryPartRow, Stack, WatchLosses, Watched, WatchedMemory, WatchedPlace, WatchedPlaces,
    WatchedProcess, WatchedSite, Which,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::draw;
use super::state::{Request, Sort, State};
use crate::output::text::Look;
use crate::runs::watch::headline::headline;

fn frame(function: &str, file: Option<&str>, line: u32) -> Frame {
    Frame {
        function: function.to_owned(),
        folded: Vec::new(),
        file: file.map(str::to_owned),
        line: file.map(|_| line),
        module: Some("/usr/bin/server".to_owned()),
        address: "0x1000".to_owned(),
        inlined: false,
        looked_past: false,
        nameless: 0,
        named: true,
        allocates: false,
        keeps_arguments: false,
    }
}

fn figure(value: f64, percent: f64) -> Estimate {
    let part = value.abs() * percent / 100.0;
    Estimate { value, low: Some(value - part), high: Some(value + part), samples: 120 }
}

fn site(id: u64, function: &str, bytes: f64, growth: Estimate) -> WatchedSite {
    let frames = vec![
        frame(function, Some("/src/server.c"), 35),
        frame("serve", None, 0),
        frame("main", Some("/src/main.c"), 9),
    ];
    WatchedSite {
        live_bytes: figure(bytes, 9.0),
        live: figure(bytes / 100.0, 9.0),
        samples: 120 / id,
        growth: Growth { verdict: verdict(&growth), bytes_per_hour: growth, ..Growth::default() },
        oldest_ms: 7_500_000 / id,
        youngest_ms: 1_000,
        byte_seconds: figure(bytes * 50.0, 20.0),
        freed_by_others: Some(0.25),
        pids: vec![4711],
        id,
        place: id,
        stack: Stack { frames, cut: id == 3 },
    }
}

/// The place of one site.
fn place(site: &WatchedSite) -> WatchedPlace {
    WatchedPlace {
        frame: site.stack.frames.first().cloned(),
        by: None,
        through: (site.id == 1).then(|| "std::string::basic_string<char>".to_owned()),
        live_bytes: site.live_bytes,
        live: site.live,
        samples: site.samples,
        growth: site.growth,
        oldest_ms: site.oldest_ms,
        youngest_ms: site.youngest_ms,
        byte_seconds: site.byte_seconds,
        freed_by_others: site.freed_by_others,
        pids: site.pids.clone(),
        sites: 1,
        id: site.id,
        bytes: Default::default(),
        largest_site: site.stack.clone(),
    }
}

fn verdict(growth: &Estimate) -> Verdict {
    match growth.low {
        None => Verdict::Unknown,
        Some(low) if low > 0.0 => Verdict::Growing,
        Some(_) => Verdict::Steady,
    }
}

/// A server that leaks, with a cache.
pub fn report() -> Watched {
    let mut few = site(3, "load\x1b[2Jconfig", 4e3, Estimate::default());
    (few.live_bytes, few.live, few.byte_seconds, few.samples) = Default::default();
    few.samples = 2;
    let sites =
        vec![site(1, "handle_request", 2e7, figure(1.21e7, 20.0)), site(2, "cache_put", 1.2e9, figure(5e3, 1e5)), few];
    let places = WatchedPlaces {
        places_grown_unsteadily: 0,
        growing_places: 1,
        places_growing_so_far: 0,
        places_in_all: 3,
        places: sites.iter().map(place).collect(),
        places_hidden: None,
        places_judged: 1,
        settled_samples: 0,
    };
    Watched {
        occasion: "every".to_owned(),
        which: Which::Old,
        older_than_ms: 300_000,
        at_unix_ms: 1_795_283_283_000,
        watched_ms: 7_640_000,
        command: ["server", "--port", "80"].map(str::to_owned).to_vec(),
        attached_ms: None,
        processes: vec![
            WatchedProcess { pid: 4711, executable: "/usr/bin/server".to_owned(), running: true },
            WatchedProcess { pid: 4800, executable: "/usr/bin/server".to_owned(), running: false },
        ],
        period_bytes: Some(524_288),
        live_bytes: figure(1.3e9, 8.0),
        live: figure(2.1e6, 9.0),
        samples: 312,
        reported_bytes: figure(1.25e9, 8.0),
        reported_samples: 280,
        growing: 1,
        places,
        sites,
        sites_in_all: 3,
        hidden: None,
        muted_samples: 4,
        suppressed_samples: 0,
        known_samples: 17,
        unused_suppressions: vec!["nobody".to_owned()],
        memory: Some(memory()),
        lost: WatchLosses { picks: 3, ..WatchLosses::default() },
        custom_allocators: Vec::new(),
        unseen: None,
    }
}

/// 1.6 GB; what is free or mapped by the program grew.
fn memory() -> WatchedMemory {
    let row = |(part, bytes, grown_bytes)| {
        let (low, high) = (Some(bytes), Some(bytes));
        MemoryPartRow { part, bytes, low, high, grown_bytes }
    };
    let parts = [(MemoryPart::LiveHeap, 1_300_000_000, 9), (MemoryPart::OtherAnonymous, 300_000_000, 120_000_000)];
    let grows = Some(MemoryPart::OtherAnonymous);
    let (rss, pss) = (1_600_000_000, 1_600_000_000);
    WatchedMemory {
        rss,
        pss,
        swap: 0,
        gap: Some(300_000_000),
        gap_is_least: false,
        gap_low: Some(300_000_000),
        gap_high: Some(300_000_000),
        older_blocks: None,
        parts: parts.map(row).to_vec(),
        grows,
    }
}

fn state() -> State {
    let history = (0..200).map(|n| (n * 38_200, 1_000_000_000 + n * 1_500_000)).collect();
    let mut state = State { history, warm_up_ms: 180_000, ..State::default() };
    state.headline = headline(&report(), None, &Look::default());
    state.show(report());
    state
}

fn drawn(state: &mut State, width: u16, height: u16, look: Look) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, state, &look)).expect("a drawing");
    terminal.backend().to_string()
}

fn press(state: &mut State, keys: &str) -> Request {
    keys.chars().map(|c| state.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))).last().expect("a key")
}

fn key(state: &mut State, code: KeyCode) -> Request {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn sites_with_their_figures() {
    insta::assert_snapshot!(drawn(&mut state(), 130, 20, Look::default()));
}

#[test]
fn a_usual_terminal() {
    insta::assert_snapshot!(drawn(&mut state(), 80, 24, Look::default()));
}

#[test]
fn letters_alone_where_there_are_no_others() {
    let look = Look { ascii: true, ..Look::default() };
    let text = drawn(&mut state(), 80, 16, look);
    assert!(text.contains("handle_request server.c:35 <- ser"), "{text}");
    assert!(text.contains('#') && !text.contains('█'), "{text}");
}

#[test]
fn the_stack_of_the_chosen_site() {
    let mut state = state();
    press(&mut state, "jj");
    key(&mut state, KeyCode::Enter);
    insta::assert_snapshot!(drawn(&mut state, 80, 20, Look::default()));
    key(&mut state, KeyCode::Esc);
    assert!(!state.detail);
}

#[test]
fn no_size_of_a_terminal_is_too_much() {
    for width in (1..60).chain([200, 1000]) {
        for height in (1..12).chain([100]) {
            let mut state = state();
            drawn(&mut state, width, height, Look::default());
            press(&mut state, "j");
            key(&mut state, KeyCode::Enter);
            drawn(&mut state, width, height, Look::default());
            drawn(&mut State::default(), width, height, Look::default());
        }
    }
}

#[test]
fn names_are_data() {
    let text = drawn(&mut state(), 130, 20, Look { colour: true, ..Look::default() });
    assert!(text.contains("load\\u{1b}[2Jconfig") && !text.contains('\x1b'), "{text}");
}

#[test]
fn keys_sort_and_search() {
    let mut state = state();
    let order = |state: &State| state.rows().iter().map(|site| site.id).collect::<Vec<_>>();
    assert_eq!(order(&state), [1, 2, 3]);
    press(&mut state, "s");
    assert_eq!((state.sort, order(&state)), (Sort::Bytes, vec![2, 1, 3]));
    press(&mut state, "s");
    assert_eq!((state.sort, order(&state)), (Sort::Growth, vec![1, 2, 3]));
    press(&mut state, "ss");
    assert_eq!((state.sort, order(&state)), (Sort::ByteSeconds, vec![2, 1, 3]));
    assert_eq!(press(&mut state, "/CACHEq"), Request::Nothing);
    assert_eq!(state.search, "CACHEq");
    key(&mut state, KeyCode::Backspace);
    assert_eq!((order(&state), state.chosen), (vec![2], Some(2)));
    key(&mut state, KeyCode::Enter);
    assert!(!state.searching);
    key(&mut state, KeyCode::Esc);
    assert_eq!(order(&state).len(), 3);
    press(&mut state, "/nobody");
    assert_eq!((order(&state).len(), state.chosen), (0, None));
    assert!(drawn(&mut state, 80, 20, Look::default()).contains("no place has that"));
}

#[test]
fn keys_ask_the_watch() {
    let mut state = state();
    for (keys, asked) in [
        ("+", Request::More),
        ("=", Request::More),
        ("-", Request::Less),
        ("d", Request::Toggle),
        ("u", Request::Unmute),
        ("r", Request::Report),
        ("o", Request::Which),
        ("q", Request::Leave),
        ("x", Request::Nothing),
    ] {
        assert_eq!(press(&mut state, keys), asked, "{keys}");
    }
    assert_eq!(state.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Request::Interrupt);
    press(&mut state, "j");
    assert_eq!(press(&mut state, "m"), Request::Mute(2));
    assert_eq!(state.chosen, Some(3), "the next one is chosen");
    assert_eq!(press(&mut state, "m"), Request::Mute(3));
    assert_eq!(state.chosen, Some(2));
}

#[test]
fn what_is_chosen_stays_chosen() {
    let mut state = state();
    press(&mut state, "j");
    let mut next = report();
    next.places.places[0].growth.verdict = Verdict::Steady;
    state.show(next);
    assert_eq!(state.choice().map(|(at, place)| (at, place.id)), Some((0, 2)));
    let mut next = report();
    next.places.places.remove(1);
    state.show(next);
    assert_eq!(state.chosen, Some(1), "it is gone");
    key(&mut state, KeyCode::End);
    assert_eq!(state.chosen, Some(3));
    key(&mut state, KeyCode::PageUp);
    key(&mut state, KeyCode::Home);
    assert_eq!(state.chosen, Some(1));
}

/// Nothing is cut without a sign of it, at the usual sizes.
#[test]
fn what_is_cut_ends_with_an_ellipsis() {
    for (width, height) in [(60, 20), (80, 24), (200, 50)] {
        let mut state = state();
        if let Some(report) = &mut state.report {
            report.command = vec!["/usr/local/bin/server".to_owned(); 20];
        }
        state.headline.text = "a name that is longer than the terminal is wide ".repeat(9);
        for keys in ["", "?", "?j\r"] {
            for c in keys.chars() {
                let code = if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
                key(&mut state, code);
            }
            for line in drawn(&mut state, width, height, Look::default()).lines() {
                // As long as the terminal is wide, in quotes.
                let text = line.trim_matches('"');
                let full = text.trim_end().chars().count() == usize::from(width);
                let whole = ["…", "─", "watched", "█", "on average"].iter().any(|end| text.trim_end().ends_with(end));
                // This sentence goes on in the next line.
                assert!(!full || whole || text.starts_with("Incomplete"), "{width}x{height} {keys:?}: {line}");
            }
        }
    }
}

#[test]
fn all_keys_are_listed_in_the_help_at_any_usual_size() {
    for (width, height) in [(60, 20), (80, 24)] {
        let mut state = state();
        press(&mut state, "?");
        let text = drawn(&mut state, width, height, Look::default());
        let keys = [
            "↑ ↓", "Enter", " s ", " / ", " o ", " m   u ", " +   - ", " d ", " r ", " q ", "Ctrl-C", "growing", "±7 %",
        ];
        for expected in keys {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains('…') || text.matches('…').count() == 1, "nothing is cut: {text}");
        press(&mut state, "?");
        assert!(!state.help);
    }
}

/// Figures of another width move no other column.
#[test]
fn columns_stay_where_they_are() {
    let place_at = |report: &Watched, width| {
        let mut state = state();
        state.show(report.clone());
        let text = drawn(&mut state, width, 24, Look::default());
        let row = text.lines().find(|line| line.contains("cache_put")).expect("a row").to_owned();
        row.chars().take_while(|&c| c != 'c').count()
    };
    for width in [60, 80, 130, 200] {
        let usual = place_at(&report(), width);
        for (bytes, percent) in [(1.0, 0.0), (1.234e3, 99.9), (9.99e17, 49.0), (4.4e5, 90.0)] {
            let mut report = report();
            let place = &mut report.places.places[1];
            (place.live_bytes, place.growth.bytes_per_hour) = (figure(bytes, percent), figure(bytes, percent));
            (place.growth.verdict, place.oldest_ms) = (Verdict::SoFar, bytes.abs() as u64 % 1_000_000_000);
            assert_eq!(place_at(&report, width), usual, "{width} {bytes}");
        }
    }
}

/// Where no place grows, RSS may: of arenas that nobody samples, or of mappings.
#[test]
fn what_grew_outside_of_sampled_blocks_is_in_the_headline() {
    let of = |memory: Option<WatchedMemory>| {
        let mut report = Watched { memory, ..report() };
        (report.places.places, report.places.places_judged) = (Vec::new(), 1);
        headline(&report, None, &Look::default()).text
    };
    let steady = "Nothing grows significantly";
    assert_eq!(of(None), steady);
    assert_eq!(of(Some(WatchedMemory { grows: None, ..memory() })), steady);
    assert_eq!(of(Some(WatchedMemory { grows: Some(MemoryPart::LiveHeap), ..memory() })), steady);
    assert_eq!(of(Some(memory())), format!("{steady}; free or mapped by the program is 120 MB more than at first"));
}

#[test]
fn nearly_equal_places_do_not_change_places() {
    let mut state = state();
    press(&mut state, "s");
    let order = |state: &State| state.rows().iter().map(|place| place.id).collect::<Vec<_>>();
    assert_eq!(order(&state), [2, 1, 3]);
    let with = |bytes: f64| {
        let mut report = report();
        report.places.places[0].live_bytes = figure(bytes, 9.0);
        report
    };
    state.show(with(1.25e9));
    assert_eq!(order(&state), [2, 1, 3], "4 % more");
    state.show(with(1.4e9));
    assert_eq!(order(&state), [1, 2, 3], "17 % more");
    state.show(with(1.25e9));
    assert_eq!(order(&state), [1, 2, 3]);
}
