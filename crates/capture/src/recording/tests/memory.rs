//! Footprints in recordings: whole, cut and damaged.

use super::*;
use mallow_profile::{HeapMap, PlacedBlock};

fn heap_maps(bytes: &[u8]) -> Result<Vec<Option<HeapMap>>, ReadError> {
    let (mut reader, profile) = open(bytes)?;
    (0..profile.footprints.len()).map(|at| reader.heap_map(&profile, at)).collect()
}

#[test]
fn the_highest_and_the_last_footprint_are_kept() {
    let (profile, bytes) = recorded(300);
    let kept: Vec<_> =
        profile.footprints.iter().map(|f| (f.process.0, f.ms, f.is_highest, f.is_last, f.totals.rss >> 12)).collect();
    assert_eq!(kept, [(1, 402, true, false, 9), (1, 404, false, true, 4)]);
    assert_eq!((profile.footprints[0].live_blocks, profile.footprints[0].live_bytes), (2, 13));
    let maps = heap_maps(&bytes).unwrap();
    let map = maps[0].as_ref().unwrap();
    let site = |address| map.blocks.iter().find(|block| block.address == address).unwrap().site;
    let block = |address, size| PlacedBlock { address, size, site: site(address) };
    assert_eq!(map.blocks, [block(0x10, 7), block(0x30, 6)]);
    assert_eq!(map.pages, memory(2, 402, 9).pages);
    assert_eq!((&map.caches, &map.tables), (&memory(2, 402, 9).caches, &memory(2, 402, 9).tables));
    let last = maps[1].as_ref().unwrap();
    assert_eq!((&last.pages, &last.caches), (&memory(4, 404, 4).pages, &memory(4, 404, 4).caches));
    let series: Vec<_> = profile.rss[0].points.iter().map(|point| (point.ms, point.rss >> 12)).collect();
    assert_eq!(series[..4], [(400, 1), (401, 3), (401, 1), (402, 9)]);
    assert!(reader(&bytes).unwrap().heap_map(&profile, 2).unwrap().is_none());
}

/// A file without its end has the footprints of processes that had ended; packing keeps them.
#[test]
fn footprints_outlive_a_cut_and_a_pack() {
    let (profile, bytes) = recorded(300);
    let maps = heap_maps(&bytes).unwrap();
    let (end, _) = blocks(&bytes).into_iter().find(|block| block.1 == Kind::Counts).unwrap();
    assert_eq!(heap_maps(&bytes[..end]).unwrap(), maps);
    let (mut whole, read) = open(&bytes).unwrap();
    let packed = whole.pack(&read, &mut std::iter::empty(), Vec::new()).unwrap();
    assert_eq!(heap_maps(&packed).unwrap(), maps);
    assert_same(&profile, &read_bytes(&packed).unwrap());
    for (at, kind) in blocks(&bytes) {
        let maps = heap_maps(&bytes[..at]).unwrap();
        let has = |map: &Option<HeapMap>| map.is_some();
        // Before the second footprint begins, the first one is whole; a map without its blocks is none.
        assert!(kind != Kind::PlacedBlocks || maps.last().is_none_or(|last| !has(last)), "{kind:?} {maps:?}");
    }
}

#[test]
fn damaged_maps_are_noticed() {
    let mut bytes = SMALL.clone();
    let whole = heap_maps(&bytes).unwrap();
    let all = blocks(&bytes);
    let ends = all.iter().skip(1).map(|block| block.0).chain([bytes.len() - 16]);
    for (&(begin, kind), end) in all.iter().zip(ends) {
        if !matches!(kind, Kind::Footprint | Kind::Pages | Kind::Kept | Kind::PlacedBlocks) {
            continue;
        }
        for at in begin..end {
            for bit in [1, 0x10, 0x80] {
                bytes[at] ^= bit;
                let read = heap_maps(&bytes);
                assert!(read.is_err() || read.as_ref().is_ok_and(|maps| *maps != whole), "{kind:?} + {}", at - begin);
                bytes[at] ^= bit;
            }
        }
    }
}

/// A recording of the version before is read; it has no footprints.
#[test]
fn the_version_before_is_read() {
    let mut bytes = SMALL.clone();
    let whole = read_bytes(&bytes).unwrap();
    bytes[8] = 1;
    assert_same(&whole, &read_bytes(&bytes).unwrap());
    bytes[8] = 0;
    assert!(matches!(read_bytes(&bytes), Err(ReadError::Damaged { at: 8, .. })));
}
