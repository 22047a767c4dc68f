use mallow_profile::{Profile, StackId};

use crate::analysis::{Frame, Functions};

/// The places of a profile's sites, as every report names them. Made once for a table: it costs passes over frames and
/// sites.
pub struct NamedSites<'a>(Functions<'a>);

impl<'a> NamedSites<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self(Functions::new(profile))
    }

    /// The function that a report names for a site with this stack, past allocators and wrappers; `None` of a stack
    /// without frames.
    pub fn frame(&self, stack: StackId) -> Option<Frame> {
        self.0.named(stack).map(|named| self.0.frame(&named.step))
    }
}
