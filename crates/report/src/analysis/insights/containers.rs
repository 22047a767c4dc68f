//! Containers of the languages' own libraries, by the names of their functions.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::stacks::function_kind;
use crate::analysis::stacks::functions::{FunctionId, Functions};
use crate::names;

/// What a library's call allocated for, as far as the function's name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Container {
    CppString,
    CppVector,
    CppPriorityQueue,
    /// `std::map` or `std::set`.
    CppTree,
    CppMap,
    CppSet,
    /// `std::unordered_map` or `std::unordered_set`.
    CppHash,
    CppUnorderedMap,
    CppUnorderedSet,
    CppList,
    CppForwardList,
    CppDeque,
    CppFunction,
    CppShared,
    /// A stream on a string.
    CppStream,
    CppInput,
    CppOutput,
    RustString,
    RustFormat,
    RustVec,
    RustDeque,
    RustHeap,
    /// `HashMap` or `HashSet`.
    RustHash,
    RustHashMap,
    RustHashSet,
    RustBTree,
    RustBTreeMap,
    RustBTreeSet,
    RustBox,
    RustShared,
    SwiftArray,
    SwiftDictionary,
    SwiftSet,
    SwiftString,
    SwiftInterpolation,
    /// A copy of a value of a type of the program's own, whichever kinds its parts have.
    Copied,
}

use Container::*;

/// Prefixes of the qualified names of containers' functions; the first one that matches holds.
const NAMES: &[(&str, Container)] = &[
    ("std::basic_stringbuf<…>::", CppStream),
    ("std::basic_ostringstream<…>::", CppOutput),
    ("std::basic_stringstream<…>::", CppStream),
    ("std::basic_istringstream<…>::", CppInput),
    ("std::string::", CppString),
    ("std::basic_string<…>::", CppString),
    ("std::basic_string", CppString),
    ("std::operator+", CppString),
    ("std::to_string", CppString),
    ("std::vector<…>::", CppVector),
    ("std::_Vector_base<…>::", CppVector),
    ("std::vector<…>::", CppVector),
    ("std::__split_buffer<…>::", CppVector),
    ("std::priority_queue<…>::", CppPriorityQueue),
    ("std::_Rb_tree<…>::", CppTree),
    ("std::__tree<…>::", CppTree),
    ("std::map<…>::", CppMap),
    ("std::multimap<…>::", CppMap),
    ("std::set<…>::", CppSet),
    ("std::multiset<…>::", CppSet),
    ("std::_Hashtable<…>::", CppHash),
    ("std::__hash_table<…>::", CppHash),
    ("std::__detail::_Map_base<…>::", CppUnorderedMap),
    ("std::__detail::_Insert", CppHash),
    ("std::unordered_map<…>::", CppUnorderedMap),
    ("std::unordered_multimap<…>::", CppUnorderedMap),
    ("std::unordered_set<…>::", CppUnorderedSet),
    ("std::unordered_multiset<…>::", CppUnorderedSet),
    ("std::list<…>::", CppList),
    ("std::_List_base<…>::", CppList),
    ("std::forward_list<…>::", CppForwardList),
    ("std::_Fwd_list_base<…>::", CppForwardList),
    ("std::deque<…>::", CppDeque),
    ("std::_Deque_base<…>::", CppDeque),
    ("std::function<…>::", CppFunction),
    ("std::_Function_base::", CppFunction),
    ("std::_Function_handler<…>::", CppFunction),
    ("std::make_shared<…>", CppShared),
    ("std::allocate_shared<…>", CppShared),
    ("std::shared_ptr<…>::", CppShared),
    ("std::__shared_ptr<…>::", CppShared),
    ("std::__shared_count<…>::", CppShared),
    ("alloc::fmt::format", RustFormat),
    ("alloc::string::", RustString),
    ("alloc::str::", RustString),
    ("str>::", RustString),
    ("alloc::vec::", RustVec),
    ("alloc::raw_vec::", RustVec),
    ("alloc::slice::", RustVec),
    ("[_]>::", RustVec),
    ("hashbrown::map::", RustHashMap),
    ("hashbrown::set::", RustHashSet),
    ("hashbrown::", RustHash),
    ("std::collections::hash::map::", RustHashMap),
    ("std::collections::hash::set::", RustHashSet),
    ("alloc::collections::btree::map::", RustBTreeMap),
    ("alloc::collections::btree::set::", RustBTreeSet),
    ("alloc::collections::btree::", RustBTree),
    ("alloc::collections::vec_deque::", RustDeque),
    ("alloc::collections::binary_heap::", RustHeap),
    ("alloc::boxed::", RustBox),
    ("alloc::sync::", RustShared),
    ("alloc::rc::", RustShared),
];

/// Prefixes of the paths of containers' functions in Swift's own module, underscores in front left out.
const SWIFT_NAMES: &[(&str, Container)] = &[
    ("Array.", SwiftArray),
    ("ArraySlice.", SwiftArray),
    ("ContiguousArray.", SwiftArray),
    ("ArrayBuffer.", SwiftArray),
    ("ContiguousArrayBuffer.", SwiftArray),
    ("SliceBuffer.", SwiftArray),
    ("UnsafePartiallyInitializedContiguousArrayBuffer.", SwiftArray),
    ("ArrayProtocol.", SwiftArray),
    ("ArrayBufferProtocol.", SwiftArray),
    ("allocateUninitializedArray", SwiftArray),
    ("copyCollectionToContiguousArray", SwiftArray),
    ("copySequenceToContiguousArray", SwiftArray),
    ("Dictionary.", SwiftDictionary),
    ("NativeDictionary.", SwiftDictionary),
    ("DictionaryStorage.", SwiftDictionary),
    ("Set.", SwiftSet),
    ("NativeSet.", SwiftSet),
    ("SetStorage.", SwiftSet),
    ("DefaultStringInterpolation.", SwiftInterpolation),
    ("String.", SwiftString),
    ("StringGuts.", SwiftString),
    ("StringStorage.", SwiftString),
    ("Substring.", SwiftString),
];

impl Container {
    pub fn name(self) -> &'static str {
        match self {
            CppString => "std::string",
            CppVector => "std::vector",
            CppPriorityQueue => "std::priority_queue",
            CppTree => "std::map or std::set",
            CppMap => "std::map",
            CppSet => "std::set",
            CppHash => "std::unordered_map or std::unordered_set",
            CppUnorderedMap => "std::unordered_map",
            CppUnorderedSet => "std::unordered_set",
            CppList => "std::list",
            CppForwardList => "std::forward_list",
            CppDeque => "std::deque",
            CppFunction => "std::function",
            CppShared => "std::shared_ptr",
            CppStream => "string stream",
            CppInput => "std::istringstream",
            CppOutput => "std::ostringstream",
            RustString => "String",
            RustFormat => "format!",
            RustVec => "Vec",
            RustDeque => "VecDeque",
            RustHeap => "BinaryHeap",
            RustHash => "HashMap or HashSet",
            RustHashMap => "HashMap",
            RustHashSet => "HashSet",
            RustBTree => "BTreeMap or BTreeSet",
            RustBTreeMap => "BTreeMap",
            RustBTreeSet => "BTreeSet",
            RustBox => "Box",
            RustShared => "Arc or Rc",
            SwiftArray => "Array",
            SwiftDictionary => "Dictionary",
            SwiftSet => "Set",
            SwiftString => "String",
            SwiftInterpolation => "interpolated String",
            Copied => "copied value",
        }
    }

    /// The kind that has the same remedies.
    pub fn base(self) -> Self {
        match self {
            CppForwardList => CppList,
            CppOutput => CppStream,
            RustDeque | RustHeap => RustVec,
            RustHashMap | RustHashSet => RustHash,
            RustBTreeMap | RustBTreeSet => RustBTree,
            other => other,
        }
    }

    /// The remedy, as a sentence, where the container allocates often.
    pub fn remedy(self) -> &'static str {
        match self {
            CppString => {
                "Pass std::string_view or a reference where a copy is made, and reserve() where it is built up."
            }
            CppVector => "reserve() the size it will have, or keep one and clear() it.",
            // It has neither function.
            CppPriorityQueue => {
                "Make it from a std::vector that has its size by reserve(), or keep a vector and std::push_heap."
            }
            CppTree | CppMap | CppSet => {
                "Each element is a block: a sorted std::vector has one for all, a pool (std::pmr) few."
            }
            CppHash | CppUnorderedMap | CppUnorderedSet => {
                "Each element is a block: a table with open addressing has one for all, a pool (std::pmr) few."
            }
            CppList | CppForwardList => "Each element is a block: a std::vector has one for all.",
            CppDeque => "An empty std::deque has two blocks already: keep one, or use a std::vector.",
            CppFunction => {
                "It allocates for callables of more than two words, and for those that plain bytes do not copy: capture \
                 a reference, or take a template."
            }
            CppShared => "Where one owner is enough, a value or a std::unique_ptr that is kept.",
            CppStream | CppOutput => "std::to_chars or std::format_to into a buffer that is kept.",
            CppInput => "std::from_chars on the text itself.",
            RustString => "Borrow &str where a copy is made, and String::with_capacity where it is built up.",
            RustFormat => "write! into a String that is kept and cleared.",
            RustVec | RustDeque | RustHeap | RustHash | RustHashMap | RustHashSet => {
                "Make it with_capacity, or keep one and clear() it."
            }
            RustBTree | RustBTreeMap | RustBTreeSet => {
                "Where order is not needed a hash table, where elements are few a sorted Vec."
            }
            RustBox => "Keep values where they are, or in a Vec, and pass references.",
            RustShared => "Clone the pointer and not the contents; where one owner is enough, a value.",
            SwiftArray => {
                "Keep one and removeAll(keepingCapacity: true); .lazy where an array is only passed on; a reference or \
                 inout where a copy is made."
            }
            SwiftDictionary | SwiftSet => {
                "Keep one and removeAll(keepingCapacity: true), or give it its minimumCapacity."
            }
            SwiftString => "Pass a Substring where a copy is made, and reserveCapacity(_:) where it is built up.",
            SwiftInterpolation => "append(_:) to a String that is kept, with removeAll(keepingCapacity: true).",
            Copied => "Pass a reference where a copy is made, or move the value.",
        }
    }

    /// The remedy, as a sentence, where several are live at once, whatever call made them; None: there is none. `grown`
    /// says whether some of their blocks had to grow.
    pub fn remedy_of_several(self, grown: bool) -> Option<&'static str> {
        match self.base() {
            CppVector | RustVec if !grown => Some("Move it where a copy is made."),
            RustHash | SwiftDictionary | SwiftSet if !grown => None,
            CppVector => Some("reserve() the size it will have, or move it where a copy is made."),
            CppDeque => Some("An empty std::deque has two blocks already: use a std::vector."),
            CppStream => Some("std::to_chars or std::format_to allocate less than a stream."),
            RustVec => Some("Make it with_capacity, or move it where a copy is made."),
            RustHash => Some("Make it with_capacity."),
            SwiftArray => Some(".lazy where an array is only passed on; a reference or inout where a copy is made."),
            SwiftDictionary | SwiftSet => Some("Give it its minimumCapacity."),
            RustFormat | SwiftInterpolation => None,
            _ => Some(self.remedy()),
        }
    }

    /// The remedy where a good part of the blocks had to grow, however long they live.
    pub fn remedy_of_growth(self) -> String {
        format!("{}: no block has to grow.", self.reserve())
    }

    /// The remedy, as a sentence, where the memory is kept: none that takes it for temporary; None: there is none.
    /// `grown` says whether some of the blocks had to grow.
    pub fn remedy_of_stored(self, grown: bool) -> Option<&'static str> {
        match self.base() {
            RustHash | SwiftDictionary | SwiftSet if !grown => None,
            CppString | RustString | RustFormat | SwiftString | SwiftInterpolation => {
                Some("They are stored: keep equal ones once, or all in one buffer with their offsets.")
            }
            CppVector | RustVec | SwiftArray => {
                Some("They are stored: one array for all, with their offsets, is a single block.")
            }
            CppDeque => Some("An empty std::deque has two blocks already: use a std::vector."),
            RustHash => Some("Make it with_capacity, where the number of elements is known."),
            SwiftDictionary | SwiftSet => Some("Give it its minimumCapacity, where the number of elements is known."),
            Copied => Some("They are stored: share equal ones, or move the value in."),
            CppStream | CppInput => None,
            _ => Some(self.remedy()),
        }
    }

    /// Whether the container moves into a larger block as it grows.
    pub fn grows(self) -> bool {
        !matches!(
            self.base(),
            CppTree | CppMap | CppSet | CppList | CppFunction | CppShared | RustBTree | RustBox | RustShared | Copied
        )
    }

    /// Whether the container grows by realloc alone.
    pub fn reallocates(self) -> bool {
        matches!(self.base(), RustString | RustFormat | RustVec)
    }

    /// The call that reserves the container's final size.
    pub fn reserve(self) -> &'static str {
        match self.base() {
            CppString | CppVector | CppHash | CppUnorderedMap | CppUnorderedSet => "reserve() the final size",
            RustString | RustVec | RustHash => "Give it its final size with_capacity",
            RustFormat => "String::with_capacity(n), then write! into it",
            SwiftArray | SwiftDictionary | SwiftSet | SwiftString | SwiftInterpolation => {
                "reserveCapacity(_:) with the final count"
            }
            CppPriorityQueue => "Make it from a std::vector that has its final size by reserve()",
            CppStream => "Append to a std::string that has its final size by reserve()",
            _ => "Allocate the final size at once",
        }
    }

    /// The call that empties the container without giving its memory back; None: `clear()`.
    pub fn clear(self) -> Option<&'static str> {
        match self {
            SwiftArray | SwiftDictionary | SwiftSet | SwiftString | SwiftInterpolation => {
                Some("removeAll(keepingCapacity: true)")
            }
            _ => None,
        }
    }

    /// The call that gives back memory which is not in use; None: there is none.
    pub fn shrink(self) -> Option<&'static str> {
        match self.base() {
            CppString | CppVector | CppDeque => Some("shrink_to_fit()"),
            RustString | RustFormat | RustVec => Some("shrink_to_fit()"),
            SwiftArray | SwiftString | SwiftInterpolation => Some("a copy that reserves its own count"),
            _ => None,
        }
    }

    /// Whether this is a sequence or a text of C++'s library.
    pub fn is_of_cpp(self) -> bool {
        matches!(self, CppString | CppVector)
    }

    /// Whether this is a sequence or a text of Rust's library.
    pub fn is_of_rust(self) -> bool {
        matches!(self.base(), RustString | RustVec | RustHash)
    }

    /// Whether this is a table that grows when it is full.
    pub fn is_hash(self) -> bool {
        matches!(self.base(), CppHash | CppUnorderedMap | CppUnorderedSet | RustHash | SwiftDictionary | SwiftSet)
    }

    /// Whether sizes are powers of two, whatever capacity was asked for.
    pub fn doubles_alone(self) -> bool {
        matches!(self.base(), RustHash | SwiftDictionary | SwiftSet)
    }

    /// The one that a person would name, where a function of `outer` called one of `self`.
    fn within(self, outer: Self) -> Self {
        match (self, outer) {
            (_, Copied)
            | (CppTree, CppMap | CppSet)
            | (CppHash, CppUnorderedMap | CppUnorderedSet)
            | (CppString, CppStream | CppInput | CppOutput)
            | (CppStream, CppInput | CppOutput)
            | (CppVector, CppPriorityQueue)
            | (RustVec, RustString | RustDeque | RustHeap)
            | (RustHash, RustHashMap | RustHashSet)
            | (RustHashMap, RustHashSet)
            | (RustBTree, RustBTreeMap | RustBTreeSet)
            | (RustBTreeMap, RustBTreeSet)
            | (RustBox, RustShared | RustBTree | RustBTreeMap | RustBTreeSet)
            | (SwiftString, SwiftInterpolation)
            | (RustVec | RustString, RustFormat) => outer,
            _ => self,
        }
    }
}

impl Serialize for Container {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// Containers by function. Names are looked at when they are asked for: most functions are never between a container's
/// owner and the allocator.
pub(crate) struct Containers<'a> {
    functions: &'a Functions<'a>,
    known: FxHashMap<FunctionId, Option<Container>>,
}

impl<'a> Containers<'a> {
    pub fn new(functions: &'a Functions<'a>) -> Self {
        Self { functions, known: FxHashMap::default() }
    }

    /// What `function` allocated for on behalf of its caller, where the functions further in say `inner`.
    pub fn with(&mut self, inner: Option<Container>, function: FunctionId) -> Option<Container> {
        let of = || self.functions.known_name(function).and_then(container);
        match (inner, *self.known.entry(function).or_insert_with(of)) {
            (Some(inner), Some(outer)) => Some(inner.within(outer)),
            (inner, outer) => inner.or(outer),
        }
    }
}

fn container(function: &str) -> Option<Container> {
    if function_kind::copies_own(function) {
        return Some(Copied);
    }
    if function.contains("Swift.")
        && let Some(swift) = names::swift::function(function)
    {
        return swift_container(&swift);
    }
    if !function.contains("std") && !function.contains("alloc") && !function.contains("hashbrown") {
        return None;
    }
    let short = names::short(function);
    let path = short.trim_start_matches('<');
    NAMES.iter().find(|(beginning, _)| path.starts_with(beginning)).map(|&(_, container)| container)
}

/// None for a function outside of Swift's module, whatever its name.
fn swift_container(function: &names::swift::Function<'_>) -> Option<Container> {
    if function.module != Some("Swift") {
        return None;
    }
    let mut path = function.short.as_str();
    // Closures and local functions are their function's.
    path = path.rsplit_once(" in ").map_or(path, |(_, outer)| outer);
    for mark in ["partial apply for ", "specialized ", "static "] {
        path = path.strip_prefix(mark).unwrap_or(path);
    }
    let path = path.trim_start_matches('_');
    SWIFT_NAMES.iter().find(|(beginning, _)| path.starts_with(beginning)).map(|&(_, container)| container)
}
