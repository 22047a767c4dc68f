//! Which stacks may go together: those that share rare functions, or all but one. Not all pairs are looked at.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use super::stacks::Token;

/// Stacks that are scored of those that share a feature: the ones with the nearest numbers.
const NEAREST: usize = 16;
/// Number of stacks above which a function is common: two such functions in a row are a feature as well.
const COMMON: u32 = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Candidates that are returned for a stack.
    pub most: usize,
    /// Features of a stack that are looked up, the rarest first.
    rarest: usize,
    /// Weight that two stacks must share, as a part of the weight of the lighter one.
    pub common: f32,
}

/// Stacks of a side up to which the search is [`Effort::WHOLE`].
const FEW: usize = 5_000;
/// Stacks of a side from which on the search is [`Effort::LITTLE`].
const MANY: usize = 20_000;

impl Effort {
    /// `stacks` counts those of a side. Between [`FEW`] and [`MANY`], all of them together have as many candidates as
    /// [`FEW`].
    pub fn of(stacks: usize) -> Self {
        if stacks <= FEW {
            return Self::WHOLE;
        }
        let most = (FEW * Self::WHOLE.most / stacks).max(Self::LITTLE.most);
        let part = (stacks - FEW) as f32 / (MANY - FEW) as f32;
        let rarest = (Self::WHOLE.rarest * most / Self::WHOLE.most).max(Self::LITTLE.rarest);
        Self { most, rarest, common: Self::LITTLE.common * part.min(1.0) }
    }

    const WHOLE: Self = Self { most: 16, rarest: 32, common: 0.0 };
    /// Where a search would take long: what hardly has anything in common is not compared function by function, and the
    /// partner is expected among the first few. Rare functions identify it, and the more stacks there are, the more of
    /// these there are.
    const LITTLE: Self = Self { most: 4, rarest: 12, common: 0.25 };

    /// Lowers the effort once `work` is above `budget`: the best candidate alone, and none (None) from twice the budget
    /// on. The largest stacks are searched for first.
    pub fn after(self, work: u64, budget: u64) -> Option<Self> {
        match work {
            _ if work < budget => Some(self),
            _ if work < 2 * budget => Some(Self { most: 1, ..self }),
            _ => None,
        }
    }
}

/// Most features of all stacks together. Bounds the memory: of many deep stacks, only the innermost functions are
/// features.
const FEATURES: usize = 1 << 23;
/// Functions of a stack that are features at the least, whatever [`FEATURES`] says.
const INNERMOST: usize = 32;

/// Most stacks of a side that are paired, the largest.
pub(super) const MOST: usize = 250_000;

/// The stacks of one side, by what they have in common with others.
pub(super) struct Index {
    /// Feature and stack in one word, see [`entry`]; sorted. Stacks are in the order of their numbers, the largest
    /// first.
    entries: Vec<u64>,
    /// By the upper `bucket_bits` bits, the index of the first entry that has them; at the end the number of entries.
    buckets: Vec<u32>,
    bucket_bits: u32,
    /// A bit for each value of [`SPARSE`] more upper bits, set where an entry has them: most features that are asked
    /// for have none, and these bits are near.
    present: Vec<u64>,
    numbers: Vec<(u64, u64)>,
    common: FxHashMap<Token, u32>,
    /// Functions of a stack that are features, the innermost.
    innermost: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub tokens: &'a [Token],
    /// Allocations and allocated bytes.
    pub numbers: (u64, u64),
}

impl Index {
    /// `stacks` are in the order of their numbers, the largest first. Costs a few steps for each function of each
    /// stack.
    pub fn new<'a>(stacks: impl Iterator<Item = Entry<'a>> + Clone) -> Self {
        let innermost = (FEATURES / stacks.clone().count().max(1)).max(INNERMOST);
        Self::of_inner(stacks, innermost)
    }

    fn of_inner<'a>(stacks: impl Iterator<Item = Entry<'a>> + Clone, innermost: usize) -> Self {
        let mut common: FxHashMap<Token, u32> = FxHashMap::default();
        for stack in stacks.clone() {
            for token in distinct(inner(stack.tokens, innermost)) {
                *common.entry(token).or_default() += 1;
            }
        }
        let (entries, buckets, present, numbers) = Default::default();
        let mut index = Self { entries, buckets, bucket_bits: 1, present, numbers, common, innermost };
        for (number, stack) in stacks.enumerate() {
            index.numbers.push(stack.numbers);
            let features = index.features(stack.tokens);
            index.entries.extend(features.into_iter().map(|feature| entry(feature, number as u32)));
        }
        sort(&mut index.entries);
        index.entries.dedup();
        index.bucket_bits = (index.entries.len() as u64).max(2).ilog2();
        let bits = u64::BITS - index.bucket_bits;
        let mut from = 0;
        for bucket in 0..1u64 << index.bucket_bits {
            index.buckets.push(from as u32);
            from += index.entries[from..].iter().take_while(|&&entry| entry >> bits == bucket).count();
        }
        index.buckets.push(from as u32);
        index.present = vec![0; (1usize << (index.bucket_bits + SPARSE)).div_ceil(64)];
        for &entry in &index.entries {
            let (word, bit) = bit_of(entry, index.bucket_bits);
            index.present[word] |= bit;
        }
        index
    }

    fn of_feature(&self, feature: u64) -> &[u64] {
        let (word, bit) = bit_of(feature, self.bucket_bits);
        if self.present[word] & bit == 0 {
            return &[];
        }
        let bucket = (feature >> (u64::BITS - self.bucket_bits)) as usize;
        let bucket = &self.entries[self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize];
        let (from, to) = (entry(feature, 0), entry(feature, STACK_MASK as u32));
        // A bucket that holds the one feature that is asked for needs no search.
        let begins = bucket.first().is_some_and(|&first| first >= from);
        let bucket = if begins { bucket } else { &bucket[bucket.partition_point(|&entry| entry < from)..] };
        let ends = bucket.last().is_some_and(|&last| last <= to);
        if ends { bucket } else { &bucket[..bucket.partition_point(|&entry| entry <= to)] }
    }

    /// Indices of the stacks that share the rarest features with this one, the best first.
    pub fn candidates(&self, of: Entry<'_>, effort: Effort) -> Vec<u32> {
        let mut scores: FxHashMap<u32, f32> = FxHashMap::default();
        let mut features = self.features(of.tokens);
        features.sort_unstable();
        features.dedup();
        let mut rarest: Vec<&[u64]> = features.iter().map(|&feature| self.of_feature(feature)).collect();
        rarest.retain(|entries| !entries.is_empty());
        rarest.sort_unstable_by_key(|entries| (entries.len(), entries[0]));
        let near = self.numbers.partition_point(|numbers| *numbers > of.numbers) as u32;
        for entries in rarest.into_iter().take(effort.rarest) {
            let rare = (1.0 + self.numbers.len() as f32 / entries.len() as f32).ln();
            let near = entries.partition_point(|&entry| stack_of(entry) < near);
            let from = near.saturating_sub(NEAREST / 2).min(entries.len().saturating_sub(NEAREST));
            for &entry in entries.iter().skip(from).take(NEAREST) {
                *scores.entry(stack_of(entry)).or_default() += rare;
            }
        }
        let mut ranked: Vec<(u32, f32)> = scores.into_iter().collect();
        ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(effort.most);
        ranked.into_iter().map(|(number, _)| number).collect()
    }

    /// The features of a stack: each function, each two common ones in a row, the whole stack, and all of it but one
    /// function.
    fn features(&self, tokens: &[Token]) -> Vec<u64> {
        let tokens = inner(tokens, self.innermost);
        let common = |token: &Token| self.common.get(token).is_none_or(|&stacks| stacks > COMMON);
        let mut features: Vec<u64> =
            distinct(tokens).into_iter().map(|token| hashed([1, u64::from(token.0), 0])).collect();
        for two in tokens.windows(2) {
            if common(&two[0]) && common(&two[1]) {
                features.push(hashed([2, u64::from(two[0].0), u64::from(two[1].0)]));
            }
        }
        // A sum over positions, so that what is left is the same whichever function was taken out, and from whichever
        // stack.
        const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
        let hashes: Vec<u64> = tokens.iter().map(|token| hashed([3, u64::from(token.0), 0])).collect();
        let mut outer = vec![0u64; tokens.len() + 1];
        for at in (0..tokens.len()).rev() {
            outer[at] = hashes[at].wrapping_add(outer[at + 1].wrapping_mul(BASE));
        }
        features.push(hashed([4, outer[0], 0]));
        let (mut inner, mut power) = (0u64, 1u64);
        for at in 0..tokens.len() {
            features.push(hashed([4, inner.wrapping_add(power.wrapping_mul(outer[at + 1])), 0]));
            inner = inner.wrapping_add(power.wrapping_mul(hashes[at]));
            power = power.wrapping_mul(BASE);
        }
        features
    }
}

/// Most entries that are sorted with a copy. More are sorted in place: the copy would be most of a comparison's memory.
const COPIED: usize = 1 << 22;

/// Sorts numbers whose upper bits are hashes, and thus evenly distributed: by these bits first, in two steps for each
/// of them.
fn sort(entries: &mut Vec<u64>) {
    let bits = entries.len().max(2).ilog2();
    if entries.len() > COPIED {
        return entries.sort_unstable();
    }
    let bucket = |entry: u64| (entry >> (u64::BITS - bits)) as usize;
    let mut ends = vec![0u32; 1 << bits];
    entries.iter().for_each(|&entry| ends[bucket(entry)] += 1);
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    let mut sorted = vec![0u64; entries.len()];
    for &entry in entries.iter() {
        let end = &mut ends[bucket(entry)];
        sorted[*end as usize] = entry;
        *end += 1;
    }
    let mut from = 0;
    for end in ends {
        sorted[from..end as usize].sort_unstable();
        from = end as usize;
    }
    *entries = sorted;
}

/// Lower bits of an entry: the number of a stack. The upper ones are those of a feature: two of 2^23 features seldom
/// share so many.
const STACK_BITS: u32 = 18;
const STACK_MASK: u64 = (1 << STACK_BITS) - 1;
const _: () = assert!(MOST <= 1 << STACK_BITS);

/// Upper bits that [`Index::present`] has beyond `bucket_bits`.
const SPARSE: u32 = 3;

/// The word of [`Index::present`] for a feature or an entry, and the bit in it.
fn bit_of(feature: u64, bucket_bits: u32) -> (usize, u64) {
    let bit = feature >> (u64::BITS - bucket_bits - SPARSE);
    ((bit / 64) as usize, 1 << (bit % 64))
}

fn entry(feature: u64, stack: u32) -> u64 {
    feature & !STACK_MASK | u64::from(stack)
}

fn stack_of(entry: u64) -> u32 {
    (entry & STACK_MASK) as u32
}

fn inner(tokens: &[Token], most: usize) -> &[Token] {
    &tokens[..tokens.len().min(most)]
}

fn distinct(tokens: &[Token]) -> Vec<Token> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

fn hashed(words: [u64; 3]) -> u64 {
    let mut hasher = FxHasher::default();
    for word in words {
        hasher.write_u64(word);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Effort, Entry, Index, Token, sort};

    #[test]
    fn few_are_looked_at_whatever_they_have_in_common() {
        let stacks: Vec<Vec<Token>> = (0..5000).map(|n| [n, 9000, 9001, 9002].map(Token).to_vec()).collect();
        let entries = stacks.iter().map(|tokens| Entry { tokens, numbers: (7, 7) });
        let index = Index::new(entries.clone());
        for entry in entries.step_by(500) {
            for effort in [Effort::WHOLE, Effort::LITTLE] {
                let found = index.candidates(entry, effort);
                assert!(found.len() <= effort.most, "{found:?}");
                assert_eq!(found.first(), Some(&entry.tokens[0].0), "{effort:?}");
            }
        }
    }

    #[test]
    fn entries_are_sorted_whatever_their_upper_bits_are() {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random
        };
        for length in [0, 1, 2, 3, 1000] {
            for narrow in [0, 20, 60] {
                let mut entries: Vec<u64> = (0..length).map(|_| next() >> narrow).collect();
                let mut expected = entries.clone();
                expected.sort_unstable();
                sort(&mut entries);
                assert_eq!(entries, expected);
            }
        }
    }

    #[test]
    fn effort_falls_with_the_number_of_stacks() {
        let most = |stacks| Effort::of(stacks).most;
        assert_eq!([0, 5_000, 10_000, 20_000, 250_000].map(most), [16, 16, 8, 4, 4]);
        assert!((1..250).map(|n| n * 1000).all(|n| n * most(n) <= 80_000.max(4 * n)));
        let common = |stacks| Effort::of(stacks).common;
        assert_eq!([5_000, 12_500, 20_000, 40_000].map(common), [0.0, 0.125, 0.25, 0.25]);
    }

    #[test]
    fn deep_stacks_are_known_by_their_inner_functions() {
        let deep: Vec<Token> = (0..500).map(Token).collect();
        let one = Entry { tokens: &deep, numbers: (1, 1) };
        let features = |innermost| Index::of_inner(std::iter::repeat_n(one, 40), innermost).features(&deep);
        let all = Index::new(std::iter::repeat_n(one, 40)).features(&deep);
        assert_eq!(features(500), all);
        assert!(features(50).len() < 160 && all.len() > 1000, "{}", all.len());
    }

    #[test]
    fn what_is_spent_is_spared() {
        let most = |work| Effort::WHOLE.after(work, 10).map(|effort| effort.most);
        assert_eq!([0, 9, 10, 19, 20].map(most), [Some(16), Some(16), Some(1), Some(1), None]);
    }
}
