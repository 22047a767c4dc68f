use super::*;

const AT: u64 = 0x7f00_0040_1000;

/// Plans the entry of a function of `size` bytes, with padding after it, alone in its module.
fn planned(code: &[u8], size: u64) -> Result<Patch, Refusal> {
    changed(code, code, size)
}

fn changed(memory: &[u8], file: &[u8], size: u64) -> Result<Patch, Refusal> {
    let next = AT + memory.len() as u64;
    let entry = Entry { address: AT, size, next, ifunc: false, memory, file, module: (AT - 0x1000, AT + 0x10_0000) };
    plan(&entry, &Branches::of(file, AT, &[]))
}

const PLAIN: &[u8] = b"\x55\x48\x89\xe5\x41\x57\xc3\x90\x90\x90";

#[test]
fn five_bytes_are_written_and_whole_instructions_are_displaced() {
    let patch = planned(PLAIN, 7).unwrap();
    assert_eq!(patch.range(), AT..AT + 6);
    assert_eq!(patch.original(), b"\x55\x48\x89\xe5\x41");
    assert_eq!(patch.jump(AT + 0x1005).unwrap(), *b"\xe9\x00\x10\x00\x00");
    assert_eq!(patch.jump(AT + (3 << 30)), Err(Refusal::OutOfReach));
    let back = (AT + 6).wrapping_sub(AT + 0x2000 + 6 + 5) as u32;
    let expected = [&PLAIN[..6], b"\xe9", &back.to_le_bytes()].concat();
    assert_eq!(patch.trampoline(AT + 0x2000).unwrap(), expected);
}

#[test]
fn endbr64_stays_where_it_is() {
    let code = [LANDING, PLAIN].concat();
    assert_eq!(planned(&code, 11).unwrap().range(), AT + 4..AT + 10);
}

#[test]
fn branches_lead_to_where_they_led() {
    // test %edi,%edi; je +0x10; ret
    let code = b"\x85\xff\x74\x10\x90\xc3";
    let moved = planned(code, 6).unwrap().trampoline(AT + 0x1000).unwrap();
    let branch = Decoder::new(&moved, AT + 0x1000).nth(1).unwrap();
    assert_eq!((branch.target(), branch.flow()), (Some(AT + 4 + 0x10), Flow::ConditionalJump));
    // Too far for its operand.
    assert!(matches!(
        planned(b"\x48\x8b\x05\0\x01\0\0\xc3", 8).unwrap().trampoline(1 << 46),
        Err(Refusal::NotRelocatable(_))
    ));
}

#[test]
fn a_lone_jump_or_return_may_be_padded() {
    // jmp +0x20; padding
    let patch = planned(b"\xeb\x20\x90\x90\x90", 2).unwrap();
    let moved = patch.trampoline(AT + 0x1000).unwrap();
    let jump = Decoder::new(&moved, AT + 0x1000).decode();
    assert_eq!((jump.target(), jump.length()), (Some(AT + 0x22), moved.len() as u64));
    assert_eq!(planned(b"\x31\xc0\xc3\xcc\xcc\xcc", 3).unwrap().trampoline(AT + 0x1000).unwrap(), b"\x31\xc0\xc3");
    assert_eq!(planned(b"\x31\xc0\xc3\x55\x90\xc3", 3), Err(Refusal::TooShort(3)), "in use");
    assert_eq!(planned(b"\x31\xc0\xc3", 3), Err(Refusal::TooShort(3)), "the text's end");
    assert_eq!(planned(b"\x31\xc0\x90\x90\x90\x90", 3), Err(Refusal::TooShort(3)), "it runs on into what follows");
}

#[test]
fn what_is_not_safe_is_refused_by_name() {
    assert_eq!(planned(b"\x55\x48\x89\xe5\x90\x75\xfa\xc3", 8), Err(Refusal::BranchInside(1)));
    assert_eq!(planned(b"\x55\x48\x89\xe5\x90\x75\xf9\xc3", 8), Err(Refusal::LoopToEntry));
    assert_eq!(planned(b"\xe8\0\0\0\0\xc3", 6), Err(Refusal::Call));
    assert_eq!(planned(b"\xff\xd0\x90\x90\x90\xc3", 6), Err(Refusal::Call));
    assert_eq!(planned(b"\x0f\x05\x90\x90\x90\xc3", 6), Err(Refusal::SystemCall));
    assert_eq!(planned(b"\x90\x0f\x0b\x90\x90\x90\xc3", 7), Err(Refusal::Immovable("ud2".into())));
    assert_eq!(planned(b"\x06\x06\x06\x06\x06\x06", 6), Err(Refusal::NotCode));
    assert_eq!(planned(b"\x48\x89", 0), Err(Refusal::NotCode));
    assert_eq!(planned(b"", 0), Err(Refusal::Unreadable));
    let entry = |next, ifunc| Entry { address: AT, size: 7, next, ifunc, memory: PLAIN, file: PLAIN, module: (0, !0) };
    assert_eq!(plan(&entry(AT + 10, true), &Branches::default()), Err(Refusal::Ifunc));
    assert_eq!(plan(&entry(AT + 4, false), &Branches::default()), Err(Refusal::NeighbourInside(4)));
    assert!(plan(&entry(AT + 6, false), &Branches::default()).is_ok());
}

#[test]
fn code_that_is_not_the_files_is_refused_by_its_cause() {
    let with = |bytes: &[u8]| [bytes, &PLAIN[bytes.len()..]].concat();
    assert_eq!(changed(&with(b"\xcc"), PLAIN, 7), Err(Refusal::Breakpoint));
    assert_eq!(changed(&with(b"\xe9\0\0\0\x40"), PLAIN, 7), Err(Refusal::PatchedAlready));
    assert_eq!(changed(&with(b"\xff\x25\0\0\0\0"), PLAIN, 7), Err(Refusal::PatchedAlready));
    assert_eq!(changed(&with(b"\x55\x90"), PLAIN, 7), Err(Refusal::CodeDiffers(1)));
    assert_eq!(planned(b"\xe9\0\0\0\x40\xc3", 6), Err(Refusal::PatchedAlready), "in the file as well");
    assert_eq!(changed(PLAIN, &PLAIN[..3], 7), Err(Refusal::Unreadable));
}
