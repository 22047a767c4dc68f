//! What may be done about a container, by what the call that it comes from does.

use super::containers::Container;
use super::library_call::LibraryCall;
use crate::names;

use Container::*;

impl Container {
    /// [`Self::remedy`] where no block had to grow, and one is gone before the next: each had its final size, and a
    /// capacity would change nothing. `call` is what the program called, by the name `through`.
    pub fn remedy_without_growth(self, call: LibraryCall, through: Option<&str>) -> String {
        let remedy = match (self.base(), call, through) {
            (RustFormat, ..) => self.remedy(),
            (CppString, LibraryCall::Returns, Some(name)) if name.contains("operator+") => {
                "append() to a string that is kept."
            }
            (_, LibraryCall::Returns, Some(name)) => return returned_anew(name),
            (CppString | RustString | CppVector | RustVec | RustHash, LibraryCall::Fills | LibraryCall::Makes, _) => {
                "Keep one and clear() it."
            }
            (RustString, LibraryCall::Copies, Some(name)) if name.ends_with("::to_string") => {
                "Borrow &str where a copy is made, and write! into a String that is kept and cleared where a value is."
            }
            (CppVector, LibraryCall::Copies, _) => {
                "Pass a reference where a copy is made, or assign to one that is kept."
            }
            (RustVec, LibraryCall::Copies, _) => "Borrow the slice where a copy is made.",
            (CppString, ..) => "Pass std::string_view or a reference where a copy is made.",
            (CppVector | RustVec | RustHash, ..) => "Keep one and clear() it.",
            (RustString, ..) => "Borrow &str where a copy is made.",
            (SwiftDictionary | SwiftSet, ..) => "Keep one and removeAll(keepingCapacity: true).",
            (SwiftString, ..) => "Pass a Substring where a copy is made.",
            _ => self.remedy(),
        };
        remedy.to_owned()
    }

    /// The remedy where several are live at once, for a while or for long: none that takes them for one that is kept
    /// and cleared, nor for a part of something larger; None: there is none. `grown` says whether some blocks had to
    /// grow.
    pub fn remedy_of_many(self, grown: bool, call: LibraryCall, through: Option<&str>) -> Option<String> {
        match (self.base(), call, through) {
            // Who makes the text that is kept needs its block.
            (RustFormat | SwiftInterpolation, ..) => None,
            (_, LibraryCall::Returns, Some(name)) if !grown => Some(returned_anew(name)),
            // Nor does who fills a container of its final size copy anything.
            (CppString | CppVector | RustString | RustVec, LibraryCall::Fills | LibraryCall::Makes, _) if !grown => {
                None
            }
            (CppString | RustString | SwiftString, ..) if !grown => Some(self.remedy_without_growth(call, through)),
            _ => self.remedy_of_several(grown).map(str::to_owned),
        }
    }
}

/// The remedy for a call that hands out a container which it has made in its size.
fn returned_anew(through: &str) -> String {
    let name = names::short(through);
    format!("{name} returns a new one in each call: call it less often, or pass on the one that it returned.")
}
