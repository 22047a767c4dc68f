"""Names of one processor: crates/arch alone has them. No other crate names a register, a decoder, a relocation or a layout of registers."""

import re

REGISTER = r"r[abcd]x|r[sd]i|r[bs]p|rip|r1[0-5]|r[89]|[er]flags|orig_rax|fs_base|gs_base"
NAME = re.compile(
    r"\biced_x86\b|\buser_regs\w*|\bR_(X86_64|AARCH64)_\w+|\bEM_(X86_64|386|AARCH64|ARM)\b|\bX86_64\b|\bAArch64\b|\btarget_arch\b"
    r"|\b(std|core)::arch\b|\basm!|\bAUDIT_ARCH_\w+|\bPTRACE_[GS]ET(FP)?REGS\w*|\bNT_(X86|ARM|PRSTATUS|PRFPREG)\w*|(?<!-)x86-64"
    rf"|\b(?i:{REGISTER})\b"
)
"""Strings count: what is shown of a register, or of a processor's name, comes from crates/arch."""

DECODERS = {"iced-x86", "yaxpeax-x86", "yaxpeax-arm", "capstone", "disarm64"}
"""Crates that only crates/arch may import."""

ALLOWED = {
    # The decoder is the oracle for what was moved.
    "crates/patch/tests/entries.rs": {"iced_x86"},
}
"""File → the names that it may contain. It shrinks."""

FOUND = """
use iced_x86::Decoder;
let registers: libc::user_regs_struct = zeroed();
Registers { rip: to, ..registers }
if machine != elf::EM_X86_64 {}
const ROWS: [&str; 2] = ["R9", "RSP"];
X86_64::RA => Some(6),
#[cfg(target_arch = "aarch64")]
println!("built for x86-64");
core::arch::asm!("nop");
"""
MISSED = """
let decoder = Decoder::new(block); // rsp, rbp
/// `push %rbp`
Path::new("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
let strip = description.scripts(r7, flags);
"""


def faults(root):
    """Lines beside crates/arch that name what it has, and exceptions that nothing needs."""
    if sorted({n for n, _ in found(FOUND)}) != [n for n, line in enumerate(FOUND.splitlines(), 1) if line] or [*found(MISSED)]:
        yield "the search for names of processors is wrong: correct tests/processors.py"
    needed = set()
    for path in sorted((root / "crates").rglob("*.rs")):
        name = str(path.relative_to(root))
        # Unit tests in files of their own: bytes of code that they feed are a processor's.
        if name.startswith("crates/arch/") or path.name == "tests.rs":
            continue
        for number, word in found(path.read_text(encoding="utf-8")):
            if word in ALLOWED.get(name, ()):
                needed.add((name, word))
            else:
                yield f"{name}:{number}: {word!r}: crates/arch knows processors"
    for name, word in sorted({(name, word) for name, words in ALLOWED.items() for word in words} - needed):
        yield f"{name} has no {word!r}: take it off the exceptions of tests/processors.py"


def found(text):
    """Line and name, without comments and without the unit tests at the end."""
    text = re.split(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod ", text, maxsplit=1, flags=re.MULTILINE)[0]
    for number, line in enumerate(text.splitlines(), 1):
        for match in NAME.finditer(re.sub(r"//.*$", "", line)):
            yield number, match.group(0)
