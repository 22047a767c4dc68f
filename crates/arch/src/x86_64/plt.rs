//! Stubs of the procedure linkage table.

use super::entry::LANDING;

/// Sections that hold stubs, and bytes of one stub where the section's header does not have them.
pub const SECTIONS: [(&str, u64); 4] = [(".plt", 16), (".plt.sec", 16), (".plt.got", 8), (".iplt", 16)];

/// Bytes that a stub may have, by the section's header (`sh_entsize`). With CET, stubs of .plt.got have 16; the header
/// says so, and is not always set.
pub const SIZES: [u64; 2] = [8, 16];

/// `bnd`, which linkers put before the jump.
const BND: &[u8] = b"\xf2";

/// The slot that a stub jumps through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    At(u64),
    /// The slot of this relocation of `.rela.plt`, by its index: through the stub, the dynamic linker is entered at the
    /// first call.
    OfRelocation(usize),
}

/// The slot of the stub with this code, at `address`. None: it is no stub.
pub fn slot(code: &[u8], address: u64) -> Option<Slot> {
    match jump(code) {
        Some((length, displacement)) => Some(Slot::At(address.wrapping_add(length).wrapping_add_signed(displacement))),
        None => pushed(code).map(Slot::OfRelocation),
    }
}

/// `jmp *displacement(%rip)`: bytes up to its end, and the displacement.
fn jump(code: &[u8]) -> Option<(u64, i64)> {
    let rest = code.strip_prefix(LANDING).unwrap_or(code);
    let rest = rest.strip_prefix(BND).unwrap_or(rest);
    let displacement = rest.strip_prefix(b"\xff\x25")?.first_chunk::<4>()?;
    let length = code.len() - rest.len() + 6;
    Some((length as u64, i32::from_le_bytes(*displacement).into()))
}

/// The operand of `push $index`.
fn pushed(code: &[u8]) -> Option<usize> {
    let rest = code.strip_prefix(LANDING).unwrap_or(code);
    let index = rest.strip_prefix(b"\x68")?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*index) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_stubs() {
        let stub = |parts: &[&[u8]]| slot(&parts.concat(), 0x1000);
        let jump: &[u8] = b"\xff\x25\x10\0\0\0";
        assert_eq!(stub(&[jump]), Some(Slot::At(0x1016)));
        assert_eq!(stub(&[LANDING, BND, jump]), Some(Slot::At(0x101b)));
        assert_eq!(stub(&[b"\xff\x25\xf0\xff\xff\xff"]), Some(Slot::At(0xff6)));
        assert_eq!(stub(&[LANDING, b"\x68\x03\0\0\0"]), Some(Slot::OfRelocation(3)));
        assert_eq!(stub(&[b"\x55\x48\x89\xe5"]), None);
        assert_eq!(stub(&[&jump[..5]]), None);
    }
}
