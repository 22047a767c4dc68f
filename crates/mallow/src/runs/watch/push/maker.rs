//! The thread that makes requests of profiles: the watch hands a copy over, and goes on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use mallow_fleet::push::{PushLedger, Resource, Store, Window};
use mallow_profile::{ProcessId, Profile};

use super::chance::id;
use super::queue::Queue;

/// Profile of a source at one moment: of a watch, or of one of the many processes of one.
pub struct WatchedProfile {
    /// Number of the source, from 0.
    pub source: u64,
    /// Allocations and live blocks.
    pub profile: Profile,
    /// Whether each process of `profile` runs, by its index.
    pub running: Vec<bool>,
    /// Whether this is the last profile of the source.
    pub last: bool,
}

pub struct Offer {
    /// Profiles to be sent, one after the other.
    pub watched: Vec<WatchedProfile>,
    /// Processes that are new, in the order of their numbers in their source.
    pub resources: Vec<(u64, Resource)>,
}

/// A store, as far as profiles are made for it.
struct Recipient {
    store: Store,
    queue: Arc<Queue>,
    ledgers: HashMap<u64, PushLedger>,
}

pub struct Maker {
    recipients: Vec<Recipient>,
    /// Resources by source; the index is that of the process.
    resources: HashMap<u64, Vec<Resource>>,
    names: bool,
}

impl Maker {
    /// A maker for these stores. `names`: profiles have names of functions.
    pub fn new(stores: impl IntoIterator<Item = (Store, Arc<Queue>)>, names: bool) -> Self {
        let of = |(store, queue)| Recipient { store, queue, ledgers: HashMap::new() };
        Self { recipients: stores.into_iter().map(of).collect(), resources: HashMap::new(), names }
    }

    /// Works until nobody offers anything. `busy` is set by whoever offers.
    pub fn work(mut self, offers: &Receiver<Offer>, busy: &AtomicBool) {
        while let Ok(offer) = offers.recv() {
            for (source, resource) in offer.resources {
                self.resources.entry(source).or_default().push(resource);
            }
            offer.watched.into_iter().for_each(|watched| self.make(watched));
            busy.store(false, Ordering::Release);
        }
    }

    fn make(&mut self, WatchedProfile { source, mut profile, running, last }: WatchedProfile) {
        let resources = &*self.resources.entry(source).or_default();
        let runs = |process: ProcessId| running.get(process.0 as usize).copied().unwrap_or(false);
        for Recipient { store, queue, ledgers } in &mut self.recipients {
            let ledger = ledgers.entry(source).or_default();
            for mut window in ledger.windows(&profile, &runs) {
                // Without room the next window has this one's numbers too.
                if !queue.has_room() {
                    if last {
                        queue.count_unsent(1);
                    }
                    continue;
                }
                let resource = resource_of(&window, resources, &runs);
                let made = store.request(&mut profile, &mut window, &resource, id(), self.names);
                ledger.take(&window);
                match made {
                    Ok(request) => queue.put(request),
                    Err(_) => queue.count_unsent(1),
                }
            }
            if last {
                ledgers.remove(&source);
            }
        }
        if last {
            self.resources.remove(&source);
        }
    }
}

fn resource_of(window: &Window, resources: &[Resource], runs: &dyn Fn(ProcessId) -> bool) -> Resource {
    if let Some(known) = window.process.and_then(|process| resources.get(process.0 as usize)) {
        return known.clone();
    }
    let numbered = (0..).map(ProcessId).zip(resources);
    let ended: Vec<&Resource> = numbered.filter(|(process, _)| !runs(*process)).map(|(_, resource)| resource).collect();
    Resource::common(&ended)
}
