//! Types as a program of Go's describes them: `abi.Type` of Go 1.22 to 1.26, and what follows it in structs, arrays,
//! pointers, slices and maps.

/// Names of types may be long; longer ones are damage.
const NAME: u64 = 4096;
/// Bytes of `abi.Type`; what a kind has beside comes behind it.
const HEADER: u64 = 48;
/// Limit of other types that are read for one type: beyond it, parts of the largest structs are missing.
const TYPES: usize = 256;
/// Bytes of a field: its name, its type and its offset.
const FIELD: u64 = 24;

/// A type, as the program describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoType {
    /// Name with its package: `bytes.Buffer`.
    pub name: String,
    /// Size of a value in bytes.
    pub size: u64,
    pub pointers: bool,
    /// Names of the structs and arrays that a value contains, not of what it points to.
    pub parts: Vec<String>,
    /// A value points to others of its type, directly or through slices and maps: a node of a list or tree.
    pub links_itself: bool,
    pub map: Option<GoMap>,
}

/// Blocks that a map makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoMap {
    /// Bytes of 8 slots: a group, or a bucket before Go 1.24.
    pub slots: u64,
    /// Bytes of a key, where the slots have a pointer to it.
    pub key: Option<u64>,
    /// Bytes of a value, where the slots have a pointer to it.
    pub value: Option<u64>,
    /// Slots are made one bucket after another where many keys are in one, too: the maps of before Go 1.24.
    pub overflows: bool,
}

pub(crate) struct GoTypes<'a> {
    /// Reads so many bytes at a link-time address.
    pub bytes: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
    /// Link-time address of the names of types.
    pub names: u64,
}

/// `abi.Kind`, of those whose parts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Pointer,
    Slice,
    Struct,
    Other,
}

impl Kind {
    fn of(byte: u8) -> Self {
        /// Bits above are flags, before Go 1.24.
        const MASK: u8 = 31;
        match byte & MASK {
            17 => Self::Array,
            21 => Self::Map,
            22 => Self::Pointer,
            23 => Self::Slice,
            25 => Self::Struct,
            _ => Self::Other,
        }
    }
}

impl GoTypes<'_> {
    /// None: no type is there that makes sense.
    pub fn read(&self, address: u64) -> Option<GoType> {
        let (size, pointers) = (self.word(address)?, self.word(address.checked_add(8)?)?);
        let name = self.name(address)?;
        let mut walk = Walk { of: address, parts: Vec::new(), links_itself: false, seen: vec![address] };
        self.walk(address, true, &mut walk);
        let Walk { parts, links_itself, .. } = walk;
        let map = if self.kind(address) == Some(Kind::Map) { self.map(address) } else { None };
        Some(GoType { name, size, pointers: pointers != 0, parts, links_itself, map })
    }

    /// `abi.MapType`, or `abi.OldMapType`: which it is shows the size of its slots, which both repeat.
    fn map(&self, address: u64) -> Option<GoMap> {
        let behind = |at: u64| self.word(address.checked_add(HEADER + at)?);
        let slots = self.word(behind(16)?)?;
        let (sizes, flags) = (behind(32)?, behind(56));
        let (flags, indirect, overflows) = match sizes {
            _ if sizes == slots => (flags?, [4, 8], false),
            // A byte for each of key and value, two for the bucket, four of flags.
            _ if (sizes >> 16) & 0xffff == slots => (sizes >> 32, [1, 2], true),
            _ => return None,
        };
        let size = |flag: u64, of: u64| if flags & flag == 0 { Some(None) } else { self.word(of).map(Some) };
        let (key, value) = (size(indirect[0], behind(0)?)?, size(indirect[1], behind(8)?)?);
        Some(GoMap { slots, key, value, overflows })
    }

    /// Follows what a type is made of; `held` is a value within the first type, others are behind a pointer.
    fn walk(&self, address: u64, held: bool, walk: &mut Walk) {
        for (part, within) in self.made_of(address).unwrap_or_default() {
            let held = held && within;
            walk.links_itself |= part == walk.of;
            if walk.seen.contains(&part) || walk.seen.len() >= TYPES {
                continue;
            }
            walk.seen.push(part);
            let kind = self.kind(part);
            let aggregate = matches!(kind, Some(Kind::Struct | Kind::Array));
            if held && aggregate {
                walk.parts.extend(self.name(part));
            }
            // What a struct behind a pointer refers to is its own business.
            if held || kind != Some(Kind::Struct) {
                self.walk(part, held, walk);
            }
        }
    }

    /// The types that a type is made of, and whether a value has theirs within itself.
    fn made_of(&self, address: u64) -> Option<Vec<(u64, bool)>> {
        let behind = |at: u64| self.word(address.checked_add(HEADER + at)?);
        Some(match self.kind(address)? {
            Kind::Array => vec![(behind(0)?, true)],
            Kind::Pointer | Kind::Slice => vec![(behind(0)?, false)],
            Kind::Map => vec![(behind(0)?, false), (behind(8)?, false)],
            Kind::Struct => {
                let (first, count) = (behind(8)?, behind(16)?.min(TYPES as u64));
                let field = |at: u64| self.word(first.checked_add(at * FIELD + 8)?);
                (0..count).filter_map(field).map(|field| (field, true)).collect()
            }
            Kind::Other => Vec::new(),
        })
    }

    fn kind(&self, address: u64) -> Option<Kind> {
        (self.bytes)(address.checked_add(23)?, 1)?.first().copied().map(Kind::of)
    }

    fn word(&self, address: u64) -> Option<u64> {
        (self.bytes)(address, 8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn name(&self, address: u64) -> Option<String> {
        const EXTRA_STAR: u8 = 2;
        let bytes = (self.bytes)(address, HEADER)?;
        let offset = i32::from_le_bytes(bytes.get(40..44)?.try_into().ok()?);
        let name = self.names.checked_add_signed(i64::from(offset))?;
        // One byte of flags, and the length in groups of seven bits.
        let head = (self.bytes)(name, 4)?;
        let mut length = 0;
        let mut used = 1;
        for (index, byte) in head.get(1..)?.iter().enumerate() {
            length |= u64::from(byte & 0x7f) << (7 * index);
            used += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let text = String::from_utf8((self.bytes)(name.checked_add(used)?, length.min(NAME))?).ok()?;
        let starred = bytes.get(20)? & EXTRA_STAR != 0;
        let name = if starred { text.strip_prefix('*').unwrap_or(&text).to_owned() } else { text };
        (!name.is_empty()).then_some(name)
    }
}

struct Walk {
    of: u64,
    parts: Vec<String>,
    links_itself: bool,
    seen: Vec<u64>,
}
