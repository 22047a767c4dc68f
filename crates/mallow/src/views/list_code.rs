//! What `mallow list` shows of a function: its source, or its machine code.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use mallow_profile::ModuleId;
use mallow_report::analysis::{ListFunction, ListInstruction, Measure, Shown};
use mallow_symbols::{Code, CodeError, Instruction, Options, SourceError, SourceText, Symbolizer};

use crate::flags::ListFlags;
use crate::input::names::MissingNames;
use crate::input::recording::Recording;
use crate::output::text::units::of;

/// Lines and instructions that are shown before one with numbers, and after it.
pub const AROUND: usize = 3;

/// Limit of modules without source lines that are named.
const MODULES: usize = 3;

/// Text of a function beside its numbers.
pub enum Body {
    /// The lines of the function's file.
    Source(Vec<String>),
    Code(Vec<Block>),
    /// Nothing: its numbers are shown by line.
    Lines,
}

/// Instructions of one function of the machine's.
pub struct Block {
    /// Name of the machine's function, where the compiler put the function into it.
    pub inside: Option<String>,
    /// Instructions in their order; a gap where some are left out.
    pub rows: Vec<Row>,
}

pub enum Row {
    /// Instructions that are not shown.
    Gap,
    Instruction {
        /// Address of the instruction, in hexadecimal.
        address: String,
        text: String,
        /// The function that the instruction calls.
        target: Option<String>,
        /// Index of the numbers in [`ListFunction::instructions`].
        counted: Option<usize>,
    },
}

/// Finds sources and machine code, and what is to be said about them.
pub struct Finder<'a> {
    recording: &'a Recording,
    flags: &'a ListFlags,
    by: Measure,
    sources: HashMap<String, Result<SourceText, SourceError>>,
    symbolizer: Symbolizer,
    codes: HashMap<ModuleId, Result<Code, CodeError>>,
    /// Sources that were not found.
    missing: Vec<String>,
    /// Modules that have functions in no source.
    without_lines: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Finder<'a> {
    pub fn new(recording: &'a Recording, flags: &'a ListFlags, by: Measure) -> Self {
        Self {
            recording,
            flags,
            by,
            sources: HashMap::default(),
            symbolizer: Symbolizer::new(Options::default()),
            codes: HashMap::default(),
            missing: Vec::new(),
            without_lines: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes for the end, one line each.
    pub fn notes(mut self) -> Vec<String> {
        if let [first, others @ ..] = self.missing.as_slice() {
            let others = match others.len() {
                0 => String::new(),
                n => format!(" and {}", of(n as u64, "other source")),
            };
            let advice = "--source-path DIR or --source-map FROM=TO names the directory";
            self.notes.insert(0, format!("There is no {first}{others}: {advice}"));
        }
        // What brings them is asked of the package manager, which takes its time.
        let modules: Vec<&str> = self.without_lines.iter().take(MODULES).map(String::as_str).collect();
        self.notes.extend(self.recording.lacking(&modules).iter().map(MissingNames::line));
        self.notes
    }

    /// The text of a function. Fills in the texts that its report has room for.
    pub fn body<T: Shown>(&mut self, function: &mut ListFunction<T>) -> Body {
        let source = if self.flags.asm { None } else { self.source(function) };
        if let Some(lines) = source {
            for line in function.lines.iter_mut().filter(|line| !line.gone) {
                line.text = line.line.and_then(|number| lines.get(number as usize - 1)).cloned();
            }
            function.instructions.clear();
            return Body::Source(lines);
        }
        let blocks = self.code(function);
        match blocks.is_empty() {
            true => Body::Lines,
            false => Body::Code(blocks),
        }
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn source<T: Shown>(&mut self, function: &mut ListFunction<T>) -> Option<Vec<String>> {
        let Some(file) = &function.file else {
            let module = function.module.as_deref().unwrap_or_default();
            if !self.without_lines.iter().any(|known| known == module) {
                self.without_lines.push(module.to_owned());
            }
            return None;
        };
        if function.lines.iter().all(|line| line.line.is_none()) {
            return None;
        }
        let (recording, flags) = (self.recording, self.flags);
        let found = self.sources.entry(file.clone()).or_insert_with(|| read(recording, flags, file));
        let (note, lines) = match found {
            Err(SourceError::NotFound) => {
                if !self.missing.contains(file) {
                    self.missing.push(file.clone());
                }
                return None;
            }
            Err(error) => (Some(format!("No source {file}: {error}")), None),
            Ok(source) => {
                function.source = Some(source.path.display().to_string());
                let lines: Vec<String> = source.text.lines().map(expanded).collect();
                let last =
                    function.lines.iter().filter(|line| !line.gone).filter_map(|line| line.line).max().unwrap_or(0);
                let path = source.path.display();
                let module = function.module.as_deref().unwrap_or_default();
                let another = "it is not the version that was built; --source-path or --source-map may name that";
                let note = if (last as usize) > lines.len() {
                    Some(format!(
                        "{path} has {} lines, and {} has line {last}: {another}",
                        lines.len(),
                        function.function
                    ))
                } else if !recording.is_packed() && changed_since(source, module) {
                    Some(format!(
                        "{path} was changed after {module} was built: lines may have moved; build and record again"
                    ))
                } else {
                    None
                };
                (note, Some(lines))
            }
        };
        if let Some(note) = note {
            self.note(note);
        }
        lines
    }

    fn code<T: Shown>(&mut self, function: &mut ListFunction<T>) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut from = 0;
        while let Some(first) = function.instructions.get(from) {
            let Some(id) = first.module_id else {
                self.note(format!("No machine code of {}: it was made while the program ran", function.function));
                break;
            };
            let same = function.instructions[from..].iter().take_while(|i| i.module_id == Some(id)).count();
            self.blocks(id, function, from..from + same, &mut blocks);
            from += same;
        }
        blocks
    }

    /// The code of one module around some instructions.
    fn blocks<T: Shown>(
        &mut self,
        id: ModuleId,
        function: &mut ListFunction<T>,
        part: Range<usize>,
        out: &mut Vec<Block>,
    ) {
        let (recording, symbolizer) = (self.recording, &mut self.symbolizer);
        let path = recording.profile.modules.get(id.0 as usize).map_or("", |module| &module.path);
        let code = match self.codes.entry(id).or_insert_with(|| symbolizer.code(&recording.profile, id)) {
            Ok(code) => code,
            Err(error) => {
                let note = format!("No machine code of {path}: {error}");
                self.note(note);
                return;
            }
        };
        let mut unknown = false;
        let mut at = part.start;
        while at < part.end {
            let inside = |i: &ListInstruction<T>| i.at.saturating_sub(u64::from(!i.exact));
            let range = code.function(inside(&function.instructions[at])).unwrap_or_default();
            let instructions = code.instructions(range.clone());
            unknown |= instructions.is_empty();
            let rest = &function.instructions[at..part.end];
            let counted = at..at + rest.iter().take_while(|i| range.contains(&inside(i))).count().max(1);
            let other = code.name(range.start).map(|(name, _)| name).filter(|name| *name != function.function);
            let rows = rows(code, &instructions, &mut function.instructions, counted.clone(), self.by);
            out.push(Block { inside: other, rows });
            at = counted.end;
        }
        if unknown {
            let note = format!("No machine code of {}: where it begins in {path} is not known", function.function);
            self.note(note);
        }
    }
}

fn bare<T>(instruction: &ListInstruction<T>, at: usize) -> Row {
    Row::Instruction { address: instruction.address.clone(), text: String::new(), target: None, counted: Some(at) }
}

/// The rows around those instructions of a function that count by the measure.
fn rows<T: Shown>(
    code: &Code,
    instructions: &[Instruction],
    all: &mut [ListInstruction<T>],
    counted: Range<usize>,
    by: Measure,
) -> Vec<Row> {
    let mut counts: HashMap<usize, Vec<usize>> = HashMap::default();
    let mut elsewhere = Vec::new();
    let name = |at: usize| code.target(&instructions[at]).filter(|(_, into)| *into == 0).map(|(name, _)| name);
    for index in counted {
        let instruction = &mut all[index];
        let found = match instruction.exact {
            true => instructions.binary_search_by_key(&instruction.at, Instruction::address),
            false => instructions.binary_search_by_key(&instruction.at, Instruction::next),
        };
        let counts_here = instruction.cum.rank(by) > 0;
        match found {
            Ok(at) => {
                instruction.text = Some(instructions[at].text());
                instruction.calls = name(at);
                if counts_here {
                    counts.entry(at).or_default().push(index);
                }
            }
            // Data between the instructions, or a damaged file.
            Err(_) if counts_here => elsewhere.push(bare(instruction, index)),
            Err(_) => {}
        }
    }
    let mut wanted: Vec<usize> = counts.keys().copied().collect();
    wanted.sort_unstable();
    let mut rows = Vec::new();
    for part in around(&wanted, 0, instructions.len()) {
        if part.start > 0 {
            rows.push(Row::Gap);
        }
        for at in part {
            let row = |counted| Row::Instruction {
                address: format!("{:x}", instructions[at].address()),
                text: instructions[at].text(),
                target: name(at),
                counted,
            };
            match counts.get(&at) {
                Some(indexes) => rows.extend(indexes.iter().map(|&index| row(Some(index)))),
                None => rows.push(row(None)),
            }
        }
    }
    rows.extend(elsewhere);
    rows
}

/// Parts of `first..end` in which the sorted `wanted` can be seen. A gap takes as much room as one line that is left
/// out.
pub fn around(wanted: &[usize], first: usize, end: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for &at in wanted {
        let part = at.saturating_sub(AROUND).max(first)..(at + AROUND + 1).min(end);
        match parts.last_mut() {
            Some(last) if part.start <= last.end + 1 => last.end = part.end.max(last.end),
            _ => parts.push(part),
        }
    }
    parts
}

fn read(recording: &Recording, flags: &ListFlags, file: &str) -> Result<SourceText, SourceError> {
    let directories = &flags.source_path;
    let mapped = flags.source_map.iter().find_map(|map| map.apply(file));
    let mapped = mapped.map(|path| recording.source_text(&path.to_string_lossy(), directories));
    match mapped {
        Some(Ok(text)) => Ok(text),
        _ => recording.source_text(file, directories),
    }
}

/// True where the source is newer than the module. Where the module's file is not there, nothing can be said.
fn changed_since(source: &SourceText, module: &str) -> bool {
    let built = std::fs::metadata(Path::new(module)).and_then(|m| m.modified());
    built.is_ok_and(|built| source.written > built)
}

/// Tabs as blanks, as terminals have them.
fn expanded(line: &str) -> String {
    if !line.contains('\t') {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len() + 16);
    let mut column = 0;
    for c in line.chars() {
        let width = if c == '\t' { 8 - column % 8 } else { 1 };
        out.extend(std::iter::repeat_n(if c == '\t' { ' ' } else { c }, width));
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{around, expanded};

    #[test]
    fn surroundings_of_lines_meet() {
        let around = |wanted: &[usize], first, end| -> Vec<(usize, usize)> {
            around(wanted, first, end).into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(around(&[10, 17, 30], 1, 32), [(7, 21), (27, 32)]);
        assert_eq!(around(&[1, 9], 1, 100), [(1, 13)]);
        assert_eq!(around(&[1, 10], 1, 100), [(1, 5), (7, 14)]);
        assert_eq!(around(&[], 0, 100), []);
        assert_eq!(around(&[0], 0, 1), [(0, 1)]);
    }

    #[test]
    fn tabs_reach_to_the_next_stop() {
        assert_eq!(expanded("\tif (x)\t\t/* y */"), "        if (x)          /* y */");
        assert_eq!(expanded("größe\tx"), "größe   x");
        assert_eq!(expanded("plain"), "plain");
    }
}
