//! Numbers and strings as bytes, and back from bytes that may be anything.

/// Appends a number, 7 bits a byte, the low ones first; the high bit of a byte says that another one follows.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length as [`put`] does, and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The difference of two numbers, small where it is small in either direction: 0, -1, 1, -2, … are 0, 1, 2, 3, ….
#[inline]
pub fn fold(value: u64, base: u64) -> u64 {
    let difference = value.wrapping_sub(base) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The value that [`fold`] folded with the same `base`.
#[inline]
pub fn unfold(folded: u64, base: u64) -> u64 {
    base.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg())
}

/// Bytes that cannot be decoded, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense(pub &'static str);

/// Decodes what [`put`] and [`put_bytes`] wrote.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    bytes: Vec<u8>,
    at: usize,
}

impl Cursor {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, Nonsense> {
        let byte = *self.bytes.get(self.at).ok_or(Nonsense("a column is too short"))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn number(&mut self) -> Result<u64, Nonsense> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.any_number(),
        }
    }

    /// [`Cursor::number`] for numbers of unpredictable length: without a branch up to 8 bytes.
    #[inline]
    pub fn any_number(&mut self) -> Result<u64, Nonsense> {
        let Some(bytes) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) else {
            return self.slow_number();
        };
        let word = u64::from_le_bytes(*bytes);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.slow_number();
        }
        let length = ends.trailing_zeros() / 8 + 1;
        self.at += length as usize;
        let word = word & u64::MAX >> (64 - 8 * length);
        // Groups of 7 bits in 8 become groups of 14 in 16, of 28 in 32, of 56.
        let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
        Ok((word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4)
    }

    #[cold]
    fn slow_number(&mut self) -> Result<u64, Nonsense> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Nonsense("a number is too long"))
    }

    /// The next number, if it is below 2^32.
    #[inline]
    pub fn small(&mut self) -> Result<u32, Nonsense> {
        u32::try_from(self.number()?).map_err(|_| Nonsense("a number is too large"))
    }

    /// The next byte string of [`put_bytes`].
    pub fn bytes(&mut self) -> Result<&[u8], Nonsense> {
        let length = usize::try_from(self.number()?).map_err(|_| Nonsense("a length is too large"))?;
        let end = self.at.checked_add(length).ok_or(Nonsense("a length is too large"))?;
        let bytes = self.bytes.get(self.at..end).ok_or(Nonsense("a string is too long"))?;
        self.at = end;
        Ok(bytes)
    }

    /// The next byte string of [`put_bytes`] as text; what is no UTF-8 in it is replaced.
    pub fn string(&mut self) -> Result<String, Nonsense> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// All bytes, read or not.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes are left: no more entries can follow, since each has one at least.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(a: u64, b: u64, s: String) {
            let mut out = Vec::new();
            put(&mut out, a);
            put(&mut out, fold(a, b));
            put_bytes(&mut out, s.as_bytes());
            let mut cursor = Cursor::new(out);
            prop_assert_eq!(cursor.number(), Ok(a));
            prop_assert_eq!(unfold(cursor.number().unwrap(), b), a);
            prop_assert_eq!(cursor.string(), Ok(s));
            prop_assert!(cursor.is_empty() && cursor.byte().is_err());
        }

        /// All ways to read a number say the same, of any bytes.
        #[test]
        fn numbers_are_read_alike(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..], 0..12)) {
            let mut cursors = [(); 3].map(|()| Cursor::new(bytes.clone()));
            let read = [cursors[0].slow_number(), cursors[1].number(), cursors[2].any_number()];
            prop_assert!(read[0] == read[1] && read[0] == read[2], "{:?}", read);
            if read[0].is_ok() {
                prop_assert!(cursors[0].at == cursors[1].at && cursors[0].at == cursors[2].at);
            }
        }
    }

    #[test]
    fn small_differences_are_small() {
        assert_eq!([5, 4, 6, 3].map(|v| fold(v, 5)), [0, 1, 2, 3]);
        assert!(Cursor::new(vec![0xff; 11]).number().is_err());
        assert!(Cursor::new(vec![5, b'a']).bytes().is_err());
    }
}
