//! A profile of another tool.

use mallow_profile::Profile;

/// What the addresses of a foreign profile's frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Nothing to look names up by: what has a name has it from the file.
    Opaque,
    /// Link-time addresses in their modules, as in a recording.
    LinkTime,
    /// Offsets into the files of their modules.
    FileOffsets,
}

/// A profile of another tool.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// What it says; its origin has the quantities that it has.
    pub profile: Profile,
    /// What the addresses of its frames are.
    pub addresses: Addresses,
    /// What a person has to know to read its numbers, in one line each.
    pub remarks: Vec<String>,
}
