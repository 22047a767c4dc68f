//! Pages of a process that were copied: words by address.

/// Pages of a process, with what they held.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PagesCopy {
    /// Start, end, and index in `words` of each run of pages, by address, without overlaps.
    runs: Vec<(u64, u64, usize)>,
    words: Vec<u64>,
}

impl PagesCopy {
    /// An empty copy with room for so many words. None: there is no memory for them.
    pub fn with_room(words: u64) -> Option<Self> {
        let mut copy = Self::default();
        copy.words.try_reserve_exact(usize::try_from(words).ok()?).ok()?;
        Some(copy)
    }

    /// Adds the words from address `at` on, which must be above all that the copy has.
    pub fn push(&mut self, at: u64, words: &[u64]) {
        let (first, stop) = (self.words.len(), at + 8 * words.len() as u64);
        self.words.extend_from_slice(words);
        match self.runs.last_mut() {
            Some(last) if last.1 == at => last.1 = stop,
            _ => self.runs.push((at, stop, first)),
        }
    }

    pub fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// Start and end of each run of pages, by address.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|&(start, end, _)| (start, end))
    }

    /// Fills `into` with the words from an address on, a multiple of 8. One run must have them all; else `into` stays
    /// as it is.
    pub fn read(&self, from: u64, into: &mut [u64]) {
        let at = self.runs.partition_point(|&(start, ..)| start <= from).saturating_sub(1);
        let Some(&(start, _, first)) = self.runs.get(at) else { return };
        let first = first + (from.saturating_sub(start) / 8) as usize;
        let words = self.words.get(first..first + into.len()).unwrap_or_default();
        into[..words.len()].copy_from_slice(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_where_they_were() {
        let mut copy = PagesCopy::with_room(5).expect("memory");
        for (at, words) in [(0x1000, &[1, 2][..]), (0x1010, &[3]), (0x3000, &[4, 5])] {
            copy.push(at, words);
        }
        assert_eq!(copy.runs().collect::<Vec<_>>(), [(0x1000, 0x1018), (0x3000, 0x3010)]);
        let mut words = [0; 2];
        copy.read(0x1008, &mut words);
        assert_eq!((words, copy.bytes()), ([2, 3], 40));
        copy.read(0x3000, &mut words);
        assert_eq!(words, [4, 5]);
        assert!(PagesCopy::with_room(u64::MAX).is_none());
    }
}
