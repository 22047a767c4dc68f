//! Which of the compiler's diagnostics an allocation belongs to.

use rustc_hash::FxHashMap;

use super::runtime::Family;
use super::{Allocation, Call, Place};
use crate::model::{Diagnostic, Kind, Position, Verdict};
use crate::read::before_cgo;

/// All that the compiler said, by where it stands in the function that was compiled.
#[derive(Debug, Default)]
pub struct Compiled {
    list: Vec<Diagnostic>,
    /// By the last parts of the file's name, and the line.
    at: FxHashMap<(String, u32), Vec<usize>>,
}

/// A diagnostic that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Which.
    pub diagnostic: &'a Diagnostic,
    /// Among so many.
    pub one_of: usize,
}

impl Compiled {
    /// Of these.
    pub fn new(list: Vec<Diagnostic>) -> Self {
        let mut at: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (index, diagnostic) in list.iter().enumerate() {
            let outermost = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
            at.entry((short(&outermost.file), outermost.line)).or_default().push(index);
        }
        Self { list, at }
    }

    /// All of them.
    pub fn all(&self) -> &[Diagnostic] {
        &self.list
    }

    /// For each allocation, what the compiler said of it.
    pub(super) fn find(&self, allocations: &[Allocation]) -> Vec<Option<Found<'_>>> {
        let mut found: Vec<Option<Found>> = vec![None; allocations.len()];
        // Allocations that the same diagnostics come into question for.
        let mut rivals: FxHashMap<Vec<usize>, Vec<usize>> = FxHashMap::default();
        for (index, allocation) in allocations.iter().enumerate() {
            let candidates = self.candidates(allocation);
            if !candidates.is_empty() {
                rivals.entry(candidates).or_default().push(index);
            }
        }
        for (candidates, mut rivals) in rivals {
            // Code is mostly in the order of the source.
            rivals.sort_by_key(|&index| allocations[index].address);
            let alike = rivals.len() == candidates.len();
            for (rank, index) in rivals.into_iter().enumerate() {
                let at = if alike { rank } else { rank.min(candidates.len() - 1) };
                let diagnostic = &self.list[candidates[at]];
                let one_of = if alike && candidates.len() > 1 || candidates.len() == 1 { 1 } else { candidates.len() };
                found[index] = Some(Found { diagnostic, one_of });
            }
        }
        found
    }

    /// The diagnostics that it may be, by column.
    fn candidates(&self, allocation: &Allocation) -> Vec<usize> {
        let Some(outermost) = allocation.chain.last() else { return Vec::new() };
        // Without the program nobody knows what is called: then it is something that the compiler put into the heap.
        let call = allocation.call.as_ref();
        let kinds = match call.map(|call| (call, Family::of(&call.callee))) {
            Some((call, Some(family))) => Some(family.kinds(call)),
            Some((_, None)) => return Vec::new(),
            None => None,
        };
        let Some(here) = self.at.get(&(short(&outermost.file), outermost.line)) else { return Vec::new() };
        let mut best: Vec<usize> = Vec::new();
        let mut score = 0;
        for &index in here {
            let diagnostic = &self.list[index];
            let may = kinds.map_or(diagnostic.allocates(), |kinds| kinds.contains(&diagnostic.kind));
            if !may {
                continue;
            }
            let Some(this) = alike(diagnostic, &allocation.chain, call) else { continue };
            if this > score {
                best.clear();
                score = this;
            }
            if this == score {
                best.push(index);
            }
        }
        best.sort_by_key(|&index| (self.list[index].position.column, index));
        // An instance of a generic function for each type says the same.
        best.dedup_by(|b, a| {
            let (a, b) = (&self.list[*a], &self.list[*b]);
            (&a.position, &a.what, a.kind, a.verdict) == (&b.position, &b.what, b.kind, b.verdict)
        });
        best
    }
}

/// How well a diagnostic fits; None where it is another place's.
fn alike(diagnostic: &Diagnostic, chain: &[Place], call: Option<&Call>) -> Option<u32> {
    let mut score = 1;
    let inlined = diagnostic.inlined_at.len() + 1;
    if inlined == chain.len() {
        let positions = std::iter::once(&diagnostic.position).chain(&diagnostic.inlined_at);
        if !positions.zip(chain).all(|(position, place)| same(position, place)) {
            return None;
        }
        score += 8;
    } else if diagnostic.kind == Kind::Variable && !diagnostic.inlined_at.is_empty() {
        // Parameters and results of a function that is inside of another are variables of that one.
        if inlined != chain.len() + 1 || !diagnostic.inlined_at.iter().zip(chain).all(|(p, place)| same(p, place)) {
            return None;
        }
        score += 8;
    } else if inlined > 1 || diagnostic.placed {
        return None;
    }
    // One that the compiler left in the heap is likelier than one that is not.
    if diagnostic.verdict != Verdict::DoesNotEscape {
        score += 4;
    }
    if diagnostic.kind == Kind::Boxed {
        score += 1;
    }
    if let Some(of) = call.and_then(|call| call.of.as_ref()) {
        score += match fits(diagnostic, &of.name) {
            Some(true) => 2,
            Some(false) => return None,
            None => 0,
        };
    }
    Some(score)
}

fn same(position: &Position, place: &Place) -> bool {
    let file = || match before_cgo(&position.file) {
        // Code of another package that cgo rewrote has no directory.
        Some(name) => place.file.rsplit('/').next() == Some(name.as_str()),
        None => short(&position.file) == short(&place.file),
    };
    position.line == place.line && file()
}

/// Can what the compiler names be of this type? None where it does not name a type.
fn fits(diagnostic: &Diagnostic, name: &str) -> Option<bool> {
    let what = diagnostic.what.as_str();
    let written = match diagnostic.kind {
        Kind::Composite => what.strip_prefix('&')?.split('{').next()?,
        Kind::New => what.strip_prefix("new(")?.strip_suffix(')')?,
        Kind::Make => what.strip_prefix("make([]")?.split(',').next()?,
        _ => return None,
    };
    // Types of generic functions are named by their shapes, and those without a name by their fields.
    if written.contains("go.shape") || name.contains("go.shape") || written.contains('[') || written.contains("struct")
    {
        return None;
    }
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let pointers = |name: &str| name.chars().take_while(|&c| c == '*').count();
    let (written, name) = (alias(written), alias(name));
    (name.starts_with(|c: char| c.is_alphabetic() || c == '*'))
        .then(|| pointers(&written) == pointers(&name) && last(&written) == last(&name))
        // What a name stands for is not known here.
        .filter(|same| *same || !is_basic(&name) && !name.contains('['))
}

fn alias(name: &str) -> String {
    match name {
        "byte" => "uint8".to_owned(),
        "rune" => "int32".to_owned(),
        "any" => "interface {}".to_owned(),
        _ => name.to_owned(),
    }
}

fn is_basic(name: &str) -> bool {
    !name.contains('.')
}

/// Directory and name of a file: enough to tell files of one program apart, and the same with `-trimpath`.
fn short(file: &str) -> String {
    let mut parts = file.rsplitn(3, '/');
    match (parts.next(), parts.next()) {
        (Some(name), Some(directory)) => format!("{directory}/{name}"),
        (name, _) => name.unwrap_or_default().to_owned(),
    }
}
