//! CVE-2021-45720, lru 0.6.6: what an iterator has given can be dropped by pop.
use lru::LruCache;

fn main() {
    let mut cache = LruCache::new(2);
    cache.put(1, "a value".to_owned());
    let (_, value) = cache.iter().next().unwrap();
    cache.pop(&1);
    println!("{}", value.len() + value.bytes().map(usize::from).sum::<usize>());
}
