//! Frames as writers need them: functions with names, whatever is known of them.

use std::borrow::Cow;

use mallow_profile::{Counts, FrameId, Process, Profile, Quantity, StackId};

use mallow_report::analysis::place_name;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function<'a> {
    /// Name of the function, or `module+0xoffset`.
    pub name: Cow<'a, str>,
    pub file: Option<&'a str>,
    /// Line, from 1; 0 where it is not known.
    pub line: u32,
    pub module: Option<&'a str>,
}

/// The functions of a frame, the innermost inlined one first; at least one.
pub fn functions(profile: &Profile, frame: FrameId) -> Vec<Function<'_>> {
    let Some(raw) = profile.frames.get(frame.0 as usize) else {
        return vec![Function { name: Cow::Borrowed("??"), file: None, line: 0, module: None }];
    };
    let module = raw.module.and_then(|id| profile.modules.get(id.0 as usize)).map(|m| m.path.as_str());
    let nameless = || Cow::Owned(place_name(profile, raw));
    if raw.lines.is_empty() {
        return vec![Function { name: nameless(), file: None, line: 0, module }];
    }
    let named = raw.lines.iter().map(|line| {
        let name = Some(profile.strings.get(line.function)).filter(|name| !matches!(*name, "" | "??"));
        let file = line.file.map(|file| profile.strings.get(file)).filter(|file| !file.is_empty());
        Function { name: name.map_or_else(nameless, Cow::Borrowed), file, line: line.line, module }
    });
    named.collect()
}

/// Numbers for different functions, by frame and by depth of inlining.
pub struct Table<'a> {
    /// Each function once; a number is an index of this.
    pub functions: Vec<Function<'a>>,
    /// By frame of the profile, the numbers of its functions, the innermost first; None for a frame that was in no
    /// stack yet.
    frames: Vec<Option<Box<[u32]>>>,
    ids: rustc_hash::FxHashMap<Function<'a>, u32>,
    profile: &'a Profile,
}

impl<'a> Table<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self { functions: Vec::new(), frames: vec![None; profile.frames.len()], ids: Default::default(), profile }
    }

    /// The functions of a stack, the innermost first.
    pub fn stack(&mut self, stack: StackId) -> Vec<u32> {
        let mut all = Vec::new();
        for frame in self.profile.stacks.frames(stack) {
            let Some(known) = self.frames.get_mut(frame.0 as usize) else { continue };
            let functions = known.get_or_insert_with(|| {
                let functions = functions(self.profile, frame);
                let ids = functions.into_iter().map(|function| match self.ids.get(&function) {
                    Some(&id) => id,
                    None => {
                        let id = self.functions.len() as u32;
                        self.functions.push(function.clone());
                        self.ids.insert(function, id);
                        id
                    }
                });
                ids.collect()
            });
            all.extend_from_slice(functions);
        }
        all
    }
}

/// Name of the process's program, as people know it.
pub fn program(process: &Process) -> &str {
    process.program()
}

/// The command line, or what the profile is of.
pub fn title(profile: &Profile) -> String {
    match profile.command.is_empty() {
        true => profile.processes.first().map_or("mallow", program).to_owned(),
        false => profile.command.join(" "),
    }
}

/// A measure that writers show as one picture.
pub struct Picture {
    pub quantity: Quantity,
    pub name: &'static str,
    pub bytes: bool,
    pub of: fn(&Counts) -> u64,
}

/// Pictures in the order in which people look at them.
pub const PICTURES: [Picture; 7] = [
    Picture { quantity: Quantity::AllocatedBytes, name: "allocated bytes", bytes: true, of: |c| c.allocated_bytes },
    Picture { quantity: Quantity::Allocations, name: "allocations", bytes: false, of: |c| c.allocations },
    Picture { quantity: Quantity::PeakBytes, name: "bytes live at the peak", bytes: true, of: |c| c.peak_bytes },
    Picture { quantity: Quantity::LiveBytes, name: "live bytes", bytes: true, of: |c| c.live_bytes },
    Picture { quantity: Quantity::Live, name: "live blocks", bytes: false, of: |c| c.live },
    Picture { quantity: Quantity::Temporary, name: "temporary allocations", bytes: false, of: |c| c.temporary },
    Picture { quantity: Quantity::TemporaryBytes, name: "temporary bytes", bytes: true, of: |c| c.temporary_bytes },
];

pub fn pictured() -> Vec<Quantity> {
    PICTURES.iter().map(|picture| picture.quantity).collect()
}

/// The name without characters that end the line, or steer the terminal that shows it.
pub fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, " ")),
        false => Cow::Borrowed(text),
    }
}
