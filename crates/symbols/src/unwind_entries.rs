//! Unwind information: where functions begin and end, also of a stripped module.

use std::ops::Range;

use addr2line::gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr,
    UnwindSection,
};
use object::{Object, ObjectSection};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

pub(crate) struct UnwindEntries<'a> {
    bases: BaseAddresses,
    frames: EhFrame<Bytes<'a>>,
    /// None: there is no index, or it makes no sense.
    index: Option<ParsedEhFrameHdr<Bytes<'a>>>,
}

impl<'a> UnwindEntries<'a> {
    /// None: the module has no `.eh_frame`.
    pub fn of(file: &object::File<'a>) -> Option<Self> {
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), EndianSlice::new(section.data().ok()?, LittleEndian)))
        };
        let (at, data) = section(".eh_frame")?;
        let mut bases = BaseAddresses::default().set_eh_frame(at);
        if let Some((at, _)) = section(".text") {
            bases = bases.set_text(at);
        }
        let mut frames = EhFrame::from(data);
        frames.set_address_size(8);
        let header = section(".eh_frame_hdr");
        if let Some((at, _)) = header {
            bases = bases.set_eh_frame_hdr(at);
        }
        let index = header.and_then(|(_, header)| EhFrameHdr::from(header).parse(&bases, 8).ok());
        Some(Self { bases, frames, index })
    }

    /// The extent of the function at `address`, by the index: a search in a sorted table.
    pub fn indexed(&self, address: u64) -> Option<Range<u64>> {
        let table = self.index.as_ref()?.table()?;
        let entry = table.fde_for_address(&self.frames, &self.bases, address, EhFrame::cie_from_offset).ok()?;
        extent(&entry, address)
    }

    /// The range of the function at an address. Without the index, or with one that is wrong, all entries are walked
    /// over.
    pub fn range(&self, address: u64) -> Option<Range<u64>> {
        let walked = || {
            let entry = self.frames.fde_for_address(&self.bases, address, EhFrame::cie_from_offset).ok()?;
            extent(&entry, address)
        };
        self.indexed(address).or_else(walked)
    }
}

fn extent(entry: &FrameDescriptionEntry<Bytes<'_>>, address: u64) -> Option<Range<u64>> {
    let start = entry.initial_address();
    let range = start..start.checked_add(entry.len())?;
    range.contains(&address).then_some(range)
}
