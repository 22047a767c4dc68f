//! How well one of the compiler's diagnostics fits an allocation: its place, the function of the runtime, type and
//! size.

use super::instance;
use super::runtime::{Family, is_method_value};
use super::{Allocation, AllocationLine, Call};
use crate::chain::base;
use crate::model::{Diagnostic, Kind, Position, Verdict};
use crate::names::without_types;
use crate::read::before_cgo;

/// Whether this function of the runtime does the conversion that the compiler names. None where the name is that of a
/// type of the program's own.
fn converts(callee: &str, what: &str) -> Option<bool> {
    const RESULTS: [&str; 3] = ["([]byte)(", "([]rune)(", "string("];
    let is = RESULTS.into_iter().find(|result| what.starts_with(result))?;
    let expected = match callee.strip_prefix("runtime.")? {
        "stringtoslicebyte" | "rawbyteslice" => "([]byte)(",
        "stringtoslicerune" | "rawruneslice" => "([]rune)(",
        "slicebytetostring" | "slicerunetostring" | "intstring" => "string(",
        _ => return None,
    };
    Some(is == expected)
}

/// Does this function of the runtime make what `make` names? None where it makes all kinds, or the name is that of a
/// type of the program's own.
fn makes(callee: &str, what: &str) -> Option<bool> {
    let made = what.strip_prefix("make(")?;
    let is = if made.starts_with("map[") {
        Family::Map
    } else if made.starts_with("chan ") || made.starts_with("<-chan ") || made.starts_with("chan<- ") {
        Family::Channel
    } else if made.starts_with("[]") {
        Family::Slice
    } else {
        return None;
    };
    let family = Family::of(callee)?;
    matches!(family, Family::Map | Family::Channel | Family::Slice).then_some(family == is)
}

/// Can this call that puts a value into an interface be for the expression? Expressions of which the source alone shows
/// the type are of one function of the runtime.
fn boxes(callee: &str, what: &str) -> bool {
    const BEGINS: [(&str, &str); 21] = [
        ("len(", "convT64"),
        ("cap(", "convT64"),
        ("int(", "convT64"),
        ("uint(", "convT64"),
        ("uintptr(", "convT64"),
        ("int64(", "convT64"),
        ("uint64(", "convT64"),
        ("float64(", "convT64"),
        ("int32(", "convT32"),
        ("uint32(", "convT32"),
        ("float32(", "convT32"),
        ("string(", "convTstring"),
        ("fmt.Sprintf(", "convTstring"),
        ("fmt.Sprint(", "convTstring"),
        ("fmt.Sprintln(", "convTstring"),
        ("strconv.Itoa(", "convTstring"),
        ("strconv.FormatInt(", "convTstring"),
        ("strings.Join(", "convTstring"),
        ("strings.Repeat(", "convTstring"),
        ("([]byte)(", "convTslice"),
        ("([]rune)(", "convTslice"),
    ];
    let Some(name) = callee.strip_prefix("runtime.") else { return true };
    let begins = BEGINS.into_iter().find(|(begin, _)| what.starts_with(begin) && what.ends_with(')'));
    let is_other = matches!(name, "convTstring" | "convTslice") && is_number(what);
    !is_other && begins.is_none_or(|(_, of)| of == name)
}

/// Does the source alone show that the expression is a number? It is one where a number is an operand: `i + 1000`.
fn is_number(what: &str) -> bool {
    const OPERATORS: [&str; 11] = ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&^"];
    let words: Vec<&str> = what.split(' ').collect();
    let is_operand = |word: Option<&&str>| word.is_some_and(|word| word.parse::<f64>().is_ok());
    // What stands in quotes or brackets may be of anything.
    !what.contains(['"', '`', '(', '[', '{'])
        && (1..words.len()).any(|at| {
            OPERATORS.contains(&words[at]) && (is_operand(words.get(at - 1)) || is_operand(words.get(at + 1)))
        })
}

/// Can blocks of the size that the allocation has be of this expression? A slice whose length is written as a number
/// has room for that many, which the code shows; where it does not, its blocks are of the size class that it needs,
/// which is never twice as large.
fn has_size(diagnostic: &Diagnostic, allocation: &Allocation, call: Option<&Call>) -> bool {
    /// Bytes of the largest block of small objects: no class tells these apart.
    const SMALLEST: f64 = 16.0;
    let made = || diagnostic.what.strip_prefix("make([]")?.strip_suffix(')');
    let Some(call) = call.filter(|call| Family::of(&call.callee) == Some(Family::Slice)) else { return true };
    let Some(made) = made() else { return true };
    let Some(room) = made.rsplit(", ").next().and_then(|number| number.parse::<u64>().ok()) else { return true };
    if let Some(elements) = call.elements {
        return elements == room;
    }
    let bytes = call.of.as_ref().and_then(|of| room.checked_mul(of.size)).map(|bytes| bytes as f64);
    let Some(bytes) = bytes.filter(|_| allocation.allocations > 0.0) else { return true };
    // What small objects save by sharing blocks is no part of their size.
    let block = (allocation.bytes + allocation.shared) / allocation.allocations;
    // Figures are rounded, and those of a sampled profile estimated.
    block >= bytes * 0.9 && block <= (2.0 * bytes).max(SMALLEST) * 1.1
}

/// Can an object of the type be of this expression? The array below a slice of a constant length is one of that many
/// values, and no other object is an array; what a map is made of has a name with that in it.
fn has_form(diagnostic: &Diagnostic, call: Option<&Call>) -> bool {
    let Some(call) = call.filter(|call| Family::of(&call.callee) == Some(Family::Object)) else { return true };
    if call.combined {
        return diagnostic.kind == Kind::Variable;
    }
    // Values are put into interfaces by functions of their own. The literal of a slice's or map's type that has a name
    // looks like such a value.
    let literal = diagnostic.what.ends_with('}');
    if diagnostic.kind == Kind::Boxed && !literal && !is_method_value(call) {
        return false;
    }
    let Some(of) = call.of.as_ref().filter(|_| call.callee == "runtime.newobject") else { return true };
    let length = of.name.strip_prefix('[').and_then(|rest| rest.split(']').next()?.parse::<u64>().ok());
    match diagnostic.kind {
        Kind::Make if diagnostic.what.starts_with("make([]") => {
            let made = diagnostic.what.strip_suffix(')').and_then(|made| made.rsplit(", ").next()?.parse::<u64>().ok());
            length.is_some_and(|length| made.is_none_or(|made| made == length))
        }
        Kind::SliceLiteral => length.is_some(),
        Kind::Boxed if !is_method_value(call) => length.is_some() || of.name.to_lowercase().contains("map"),
        Kind::MapLiteral | Kind::MakeMap => of.name.to_lowercase().contains("map"),
        _ => true,
    }
}

#[derive(Clone, Copy)]
pub(super) struct Fit {
    /// Points for the place, which decides.
    pub place: u32,
    /// Points that decide between diagnostics of one place.
    likelier: u32,
}

impl Fit {
    pub fn likeliest(self) -> u32 {
        self.place + self.likelier
    }
}

/// Points of a diagnostic for an allocation; None where it is another place's.
pub(super) fn alike(diagnostic: &Diagnostic, allocation: &Allocation, call: Option<&Call>) -> Option<Fit> {
    let chain = allocation.chain.as_slice();
    let mut place = same_instance(diagnostic, allocation.symbol.as_deref());
    // A name without a directory may be of a file in any package.
    if let Some(outermost) = chain.last() {
        let bare = !outermost.file.contains('/');
        let position = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
        if bare && !is_in(&outermost.function, &diagnostic.package)
            || base(&position.file) != base(&outermost.file) && !is_same_function(diagnostic, &outermost.function)
        {
            return None;
        }
    }
    let inlined = diagnostic.inlined_at.len() + 1;
    let of_runtime = inlined.saturating_sub(chain.len());
    let positions = || std::iter::once(&diagnostic.position).chain(&diagnostic.inlined_at);
    if inlined >= chain.len() && positions().take(of_runtime).all(is_of_runtime) {
        if !positions().skip(of_runtime).zip(chain).all(|(position, of)| same(position, of)) {
            return None;
        }
        place += 8;
    } else if matches!(diagnostic.kind, Kind::Variable | Kind::NewValue | Kind::SliceLiteral)
        && !diagnostic.inlined_at.is_empty()
    {
        // Parameters and results of a function that is inside of another are variables of that one, and a slice that it
        // returns is filled there.
        if inlined != chain.len() + 1 || !diagnostic.inlined_at.iter().zip(chain).all(|(p, of)| same(p, of)) {
            return None;
        }
        place += 8;
    } else if inlined > 1 || diagnostic.placed {
        return None;
    }
    let mut score = 0;
    // One that the compiler left in the heap is likelier than one that is not.
    if diagnostic.verdict != Verdict::DoesNotEscape {
        score += 4;
    }
    // What a function is there for is likelier than what else it is used for: makeslice copies and appends, too.
    if let (Some(call), Kind::Make | Kind::MakeMap | Kind::MakeChan) = (call, diagnostic.kind)
        && makes(&call.callee, &diagnostic.what) == Some(false)
    {
        return None;
    }
    if !has_size(diagnostic, allocation, call) || !has_form(diagnostic, call) {
        return None;
    }
    let boxed = call.filter(|call| Family::of(&call.callee) == Some(Family::Box));
    if boxed.is_some_and(|call| !boxes(&call.callee, &diagnostic.what)) {
        return None;
    }
    let meant = call.and_then(|call| Family::of(&call.callee)?.meant());
    if diagnostic.kind == Kind::Boxed || meant == Some(diagnostic.kind) {
        score += 1;
    }
    if let Some(call) = call.filter(|_| diagnostic.kind == Kind::Conversion) {
        score += match converts(&call.callee, &diagnostic.what) {
            Some(true) => 2,
            Some(false) => return None,
            None => 0,
        };
    }
    if let Some(of) = call.and_then(|call| call.of.as_ref()) {
        score += match fits(diagnostic, &of.name) {
            // An append that names no type may be of it as well.
            Some(true) if diagnostic.kind == Kind::Append => 0,
            Some(true) => 2,
            Some(false) => return None,
            None => 0,
        };
    }
    Some(Fit { place, likelier: score })
}

/// Points for a diagnostic of the same instance of a generic function: that decides before all else. Compilers before
/// 1.25 do not name the function; then the expression may name its types.
fn same_instance(diagnostic: &Diagnostic, symbol: Option<&str>) -> u32 {
    let Some(types) = symbol.and_then(instance::types) else { return 1 };
    match diagnostic.function.as_deref().and_then(instance::types) {
        Some(of) if of == types => 33,
        None if instance::names_types(&diagnostic.what, &types) => 17,
        _ => 1,
    }
}

pub(super) fn same(position: &Position, place: &AllocationLine) -> bool {
    let file = || match before_cgo(&position.file) {
        // Code of another package that cgo rewrote has no directory.
        Some(name) => place.file.rsplit('/').next() == Some(name.as_str()),
        // A profile names one file of each function, and `//line` directives may name several.
        None if position.column == 0 => {
            !place.file.contains('/') || directory(&position.file) == directory(&place.file)
        }
        None if !place.file.contains('/') => base(&position.file) == place.file,
        None => short(&position.file) == short(&place.file),
    };
    position.line == place.line && file()
}

/// A function of the runtime that is inlined into the program's own, as `runtime.CallersFrames`: chains begin behind
/// it.
pub(super) fn is_of_runtime(position: &Position) -> bool {
    ["/src/runtime/", "/src/internal/runtime/"].iter().any(|directory| position.file.contains(directory))
}

/// The diagnostic is of the function that a profile has by this name.
fn is_same_function(diagnostic: &Diagnostic, name: &str) -> bool {
    let name = without_types(name);
    let is =
        |function: &String| name.strip_suffix(without_types(function).as_str()).is_some_and(|rest| rest.ends_with('.'));
    before_cgo(&diagnostic.position.file).is_some() || diagnostic.function.as_ref().is_some_and(is)
}

/// The function is of this package, or of the program's own.
fn is_in(function: &str, package: &str) -> bool {
    let function = function.replace("%2e", ".");
    function.starts_with("main.") || function.strip_prefix(package).is_some_and(|rest| rest.starts_with('.'))
}

/// Can what the compiler names be of this type? None where it does not name a type.
fn fits(diagnostic: &Diagnostic, name: &str) -> Option<bool> {
    let what = diagnostic.what.as_str();
    if diagnostic.kind == Kind::Variadic {
        // The array below the slice of arguments.
        return Some(name.starts_with('['));
    }
    let written = match diagnostic.kind {
        Kind::Composite => what.strip_prefix('&')?.split('{').next()?,
        Kind::New => what.strip_prefix("new(")?.strip_suffix(')')?,
        Kind::Make => what.strip_prefix("make([]")?.split(',').next()?,
        // `append([]T(nil), …)` and `append([]T{…}, …)`.
        Kind::Append => {
            let slice = what.strip_prefix("append(")?;
            slice.strip_prefix("([]").or_else(|| slice.strip_prefix("[]"))?.split(['(', ')', '{']).next()?
        }
        _ => return None,
    };
    // Types of generic functions are named by their shapes, and those without a name by their fields.
    if written.contains("go.shape") || name.contains("go.shape") || written.contains('[') || written.contains("struct")
    {
        return None;
    }
    let last = |name: &str| name.rsplit(['.', '*']).next().unwrap_or(name).to_owned();
    let pointers = |name: &str| name.chars().take_while(|&c| c == '*').count();
    let (written, name) = (alias(written), alias(name));
    (name.starts_with(|c: char| c.is_alphabetic() || c == '*'))
        .then(|| pointers(&written) == pointers(&name) && last(&written) == last(&name))
        // What a name stands for is not known here, but for the language's own.
        .filter(|same| *same || is_predeclared(&written) || !is_basic(&name) && !name.contains('['))
}

fn alias(name: &str) -> String {
    match name {
        "byte" => "uint8".to_owned(),
        "rune" => "int32".to_owned(),
        "any" => "interface {}".to_owned(),
        _ => name.to_owned(),
    }
}

fn is_predeclared(name: &str) -> bool {
    const NAMES: [&str; 5] = ["bool", "string", "error", "uintptr", "interface {}"];
    let numbers = ["int", "uint", "float", "complex"].iter().filter_map(|begin| name.strip_prefix(begin));
    NAMES.contains(&name) || numbers.into_iter().any(|bits| ["", "8", "16", "32", "64", "128"].contains(&bits))
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

/// Last directory of a file's name.
fn directory(file: &str) -> Option<&str> {
    file.rsplit('/').nth(1)
}
