//! Documents that were asked for before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of documents that are kept at the most.
const MOST: usize = 64 << 20;

/// Documents by what was asked, the newest last.
#[derive(Debug, Default)]
pub struct DocumentCache(Mutex<Vec<(String, String)>>);

impl DocumentCache {
    /// The document for this question, if it is there.
    pub fn get(&self, question: &str) -> Option<String> {
        let mut kept = self.lock();
        let at = kept.iter().position(|(key, _)| key == question)?;
        let found = kept.remove(at);
        kept.push(found.clone());
        Some(found.1)
    }

    /// Keeps a document, and drops those that nobody asked for the longest time.
    pub fn keep(&self, question: &str, document: &str) {
        if document.len() > MOST / 2 {
            return;
        }
        let mut kept = self.lock();
        kept.retain(|(key, _)| key != question);
        kept.push((question.to_owned(), document.to_owned()));
        let mut bytes: usize = kept.iter().map(|(key, document)| key.len() + document.len()).sum();
        let mut old = 0;
        while bytes > MOST {
            bytes -= kept[old].0.len() + kept[old].1.len();
            old += 1;
        }
        kept.drain(..old);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{DocumentCache, MOST};

    #[test]
    fn what_was_asked_for_last_is_kept() {
        let cache = DocumentCache::default();
        let large = "a".repeat(MOST / 3);
        cache.keep("small", "b");
        cache.keep("one", &large);
        cache.keep("two", &large);
        assert_eq!(cache.get("small").as_deref(), Some("b"));
        cache.keep("three", &large);
        let kept = ["small", "one", "two", "three"].map(|question| cache.get(question).is_some());
        assert_eq!(kept, [true, false, true, true]);
        cache.keep("huge", &"a".repeat(MOST));
        assert!(cache.get("huge").is_none() && cache.get("three").is_some());
    }
}
