//! A reading as words of the spool, and back from words that may be anything.
//!
//! ```text
//! number | ms | at exit, fixed thresholds << 1, background thread << 2 | peak RSS | page bytes | threads | gap | settings | setting … | mappings | mapping … | runs | run …
//! caches, complete << 63 | cached blocks | tables | zeros in huge pages | address, size … | start, end … | kind, start, end, used …
//! mapping:  start | end | kind, has pages << 8, flags << 16 | 14 sizes | name
//! gap, setting, name: length in bytes, then the bytes, padded with zeros; a gap of no length is none
//! run:      state in bits 0 to 3, pages - 1 in bits 4 to 18, number of the first page in bits 19 to 63
//! ```

use super::reading::Reading;
use mallow_profile::{
    AddressRange, CachedBlock, Footprint, HeapKind, KnownHeap, Mapping, MappingFlags, MappingKind, MemorySizes,
    PageRun, PageState, ProcessId, ThreadCaches,
};

const STATE_BITS: u32 = 4;
const COUNT_BITS: u32 = 15;
const COUNT_MOST: u64 = 1 << COUNT_BITS;

impl Reading {
    /// Encodes the reading as the module's text describes: 8 bytes a run of pages.
    pub fn to_words(&self) -> Vec<u64> {
        let Footprint { ms, is_at_exit, fixes_thresholds, peak_rss, page_bytes, threads, gap, .. } = &self.footprint;
        let Footprint { settings, has_background_thread, mappings, .. } = &self.footprint;
        let flags = u64::from(*is_at_exit) | u64::from(*fixes_thresholds) << 1 | u64::from(*has_background_thread) << 2;
        let mut words = vec![self.number, *ms, flags, *peak_rss, u64::from(*page_bytes), *threads];
        put_text(&mut words, gap.as_deref().unwrap_or_default());
        words.push(settings.len() as u64);
        settings.iter().for_each(|setting| put_text(&mut words, setting));
        words.push(mappings.len() as u64);
        for mapping in mappings {
            let kind = MappingKind::ALL.iter().position(|&kind| kind == mapping.kind).unwrap_or_default() as u64;
            let flags = kind | u64::from(mapping.has_pages) << 8 | u64::from(mapping.flags.0) << 16;
            words.extend([mapping.start, mapping.end, flags]);
            words.extend(mapping.sizes.all());
            put_text(&mut words, &mapping.name);
        }
        let count = words.len();
        words.push(0);
        for run in &self.pages {
            let first = run.start / u64::from(*page_bytes).max(1);
            for done in (0..run.pages).step_by(COUNT_MOST as usize) {
                let pages = (run.pages - done).min(COUNT_MOST);
                let state = u64::from(run.state.0 & PageState::KNOWN);
                words.push((first + done) << (STATE_BITS + COUNT_BITS) | (pages - 1) << STATE_BITS | state);
            }
        }
        words[count] = (words.len() - count - 1) as u64;
        let ThreadCaches { caches, is_complete, blocks } = &self.caches;
        words.extend([caches | u64::from(*is_complete) << 63, blocks.len() as u64, self.tables.len() as u64]);
        words.push(self.huge_zeros);
        words.extend(blocks.iter().flat_map(|block| [block.address, block.size]));
        words.extend(self.tables.iter().flat_map(|range| [range.start, range.end]));
        words.extend(self.heaps.iter().flat_map(|heap| {
            let kind = HeapKind::ALL.iter().position(|&kind| kind == heap.kind).unwrap_or_default() as u64;
            [kind, heap.start, heap.end, heap.used]
        }));
        words
    }

    /// Decodes [`Self::to_words`] of a reading of `process`. None: the words make no sense.
    pub fn of_words(process: u32, words: &[u64]) -> Option<Self> {
        let mut rest = words;
        let (number, ms, flags) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let mut footprint = Footprint {
            process: ProcessId(process),
            ms,
            is_at_exit: flags & 1 != 0,
            fixes_thresholds: flags & 2 != 0,
            has_background_thread: flags & 4 != 0,
            peak_rss: take(&mut rest)?,
            page_bytes: u32::try_from(take(&mut rest)?).ok().filter(|bytes| bytes.is_power_of_two())?,
            threads: take(&mut rest)?,
            gap: Some(take_text(&mut rest)?).filter(|gap| !gap.is_empty()),
            ..Footprint::default()
        };
        for _ in 0..take(&mut rest)? {
            footprint.settings.push(take_text(&mut rest)?);
        }
        for _ in 0..take(&mut rest)? {
            footprint.mappings.push(take_mapping(&mut rest)?);
        }
        footprint.totals = footprint.mappings.iter().map(|mapping| mapping.sizes).sum();
        footprint.check().ok()?;
        let page = u64::from(footprint.page_bytes);
        let count = usize::try_from(take(&mut rest)?).ok()?;
        let (runs, mut rest) = rest.split_at_checked(count)?;
        let mut pages: Vec<PageRun> = Vec::with_capacity(count);
        for &word in runs {
            let state = PageState(word as u8 & PageState::KNOWN);
            let start = (word >> (STATE_BITS + COUNT_BITS)).checked_mul(page)?;
            let count = (word >> STATE_BITS) % COUNT_MOST + 1;
            match pages.last_mut() {
                // One word was too few for its pages.
                Some(last)
                    if last.state == state
                        && last.pages.is_multiple_of(COUNT_MOST)
                        && last.pages.checked_mul(page)?.checked_add(last.start)? == start =>
                {
                    last.pages += count;
                }
                _ => pages.push(PageRun { start, pages: count, state }),
            }
        }
        let (head, count, tables) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let huge_zeros = take(&mut rest)?;
        let pairs_of = |count: u64| usize::try_from(count).ok()?.checked_mul(2);
        let (blocks, rest) = rest.split_at_checked(pairs_of(count)?)?;
        let (ranges, rest) = rest.split_at_checked(pairs_of(tables)?)?;
        let (blocks, ranges) = (blocks.as_chunks().0, ranges.as_chunks().0);
        let (heaps, left) = rest.as_chunks();
        if !left.is_empty() {
            return None;
        }
        let heap = |&[kind, start, end, used]: &[u64; 4]| {
            let kind = *HeapKind::ALL.get(usize::try_from(kind).ok()?)?;
            (start < end).then_some(KnownHeap { kind, start, end, used })
        };
        let heaps = heaps.iter().map(heap).collect::<Option<Vec<_>>>()?;
        if !heaps.is_sorted_by(|before, next| before.end <= next.start) {
            return None;
        }
        let tables = ranges.iter().map(|&[start, end]| AddressRange { start, end }).collect();
        let blocks = blocks.iter().map(|&[address, size]| CachedBlock { address, size }).collect();
        let caches = ThreadCaches { caches: head << 1 >> 1, is_complete: head >> 63 != 0, blocks };
        Some(Self { number, footprint, pages, caches, tables, heaps, huge_zeros })
    }
}

fn put_text(words: &mut Vec<u64>, text: &str) {
    words.push(text.len() as u64);
    words.extend(text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
}

fn take(rest: &mut &[u64]) -> Option<u64> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

fn take_text(rest: &mut &[u64]) -> Option<String> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (words, after) = rest.split_at_checked(length.div_ceil(8))?;
    *rest = after;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn take_mapping(rest: &mut &[u64]) -> Option<Mapping> {
    let (start, end, flags) = (take(rest)?, take(rest)?, take(rest)?);
    let mut sizes = [0; 14];
    for size in &mut sizes {
        *size = take(rest)?;
    }
    Some(Mapping {
        start,
        end,
        kind: *MappingKind::ALL.get(flags as usize & 0xff)?,
        flags: MappingFlags((flags >> 16) as u32),
        has_pages: flags >> 8 & 1 != 0,
        sizes: MemorySizes::of(sizes),
        name: take_text(rest)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Subject;

    fn own() -> Reading {
        let subject = Subject {
            pid: std::process::id(),
            process: 3,
            directory: "",
            own_list: 0,
            sampled: &[],
            has_older_blocks: false,
            is_at_exit: true,
        };
        let mut reading = Reading::of(&subject).expect("own memory");
        reading.number = 7;
        reading.footprint.ms = 1234;
        // More than one word has room for.
        let start = 1 << 46;
        let block = CachedBlock { address: 48, size: 24 };
        reading.caches = ThreadCaches { caches: 2, is_complete: true, blocks: vec![block; 3] };
        reading.tables = vec![AddressRange { start: 7, end: 9 }; 2];
        reading.heaps = vec![KnownHeap { kind: HeapKind::Pymalloc, start: 16, end: 32, used: 5 }];
        reading.huge_zeros = 77;
        reading.pages.push(PageRun { start, pages: 3 * COUNT_MOST + 5, state: PageState(PageState::SWAPPED) });
        reading
    }

    #[test]
    fn a_reading_comes_back() {
        let reading = own();
        let words = reading.to_words();
        assert_eq!(Reading::of_words(3, &words), Some(reading));
    }

    /// Words that are cut or changed are no reading, or another one that makes sense.
    #[test]
    fn any_words_are_read() {
        let words = own().to_words();
        for end in (0..words.len()).step_by(1 + words.len() / 500) {
            // Without its last heaps it is one.
            assert!(end + 4 == words.len() || Reading::of_words(3, &words[..end]).is_none());
        }
        for at in 0..words.len().min(2000) {
            for value in [0, 1, u64::MAX, u64::from(u32::MAX)] {
                let mut changed = words.clone();
                changed[at] = value;
                if let Some(reading) = Reading::of_words(3, &changed) {
                    assert_eq!(reading.footprint.check(), Ok(()));
                }
            }
        }
    }
}
