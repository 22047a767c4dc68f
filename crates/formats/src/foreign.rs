//! A profile of another tool.

use mallow_profile::Profile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Nothing to look names up by: all names that a frame has come from the file.
    Opaque,
    /// Link-time addresses in their modules, as in a recording.
    LinkTime,
    /// Offsets into the files of their modules.
    FileOffsets,
}

#[derive(Clone, Debug)]
pub struct Foreign {
    /// The origin of this profile says which quantities the file has.
    pub profile: Profile,
    pub addresses: Addresses,
    /// Remarks for people who read the numbers, each in one line.
    pub remarks: Vec<String>,
}
