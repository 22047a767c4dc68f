//! The thread that makes requests of profiles: the watch hands a copy over, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use mallow_fleet::push::{Ledger, Resource, Store, Window};
use mallow_profile::{ProcessId, Profile};

use super::chance::id;
use super::queue::Queue;

/// What one watch knows at one moment.
pub struct WatchedProfile {
    /// Which watch, from 0.
    pub watch: usize,
    /// What was allocated and is live.
    pub profile: Profile,
    /// For each of its processes, whether it runs.
    pub running: Vec<bool>,
}

/// What is to be sent.
pub struct Offer {
    /// One watch after the other.
    pub watched: Vec<WatchedProfile>,
    /// Processes that are new, in the order of their numbers in their watch.
    pub resources: Vec<(usize, Resource)>,
    /// There is no later one.
    pub last: bool,
}

/// A store, as far as profiles are made for it.
struct Recipient {
    store: Store,
    queue: Arc<Queue>,
    /// By watch.
    ledgers: Vec<Ledger>,
}

/// Makes requests.
pub struct Maker {
    recipients: Vec<Recipient>,
    /// By watch and process.
    resources: Vec<Vec<Resource>>,
    names: bool,
}

impl Maker {
    /// For these stores. `names`: with names of functions.
    pub fn new(stores: impl IntoIterator<Item = (Store, Arc<Queue>)>, names: bool) -> Self {
        let of = |(store, queue)| Recipient { store, queue, ledgers: Vec::new() };
        Self { recipients: stores.into_iter().map(of).collect(), resources: Vec::new(), names }
    }

    /// Works until nobody offers anything. `busy` is set by whoever offers.
    pub fn work(mut self, offers: &Receiver<Offer>, busy: &AtomicBool) {
        while let Ok(offer) = offers.recv() {
            self.make(offer);
            busy.store(false, Ordering::Release);
        }
    }

    fn make(&mut self, offer: Offer) {
        for (watch, resource) in offer.resources {
            at(&mut self.resources, watch).push(resource);
        }
        for WatchedProfile { watch, mut profile, running } in offer.watched {
            let resources = &*at(&mut self.resources, watch);
            let runs = |process: ProcessId| running.get(process.0 as usize).copied().unwrap_or(false);
            for recipient in &mut self.recipients {
                let Recipient { store, queue, ledgers } = recipient;
                let ledger = at(ledgers, watch);
                for mut window in ledger.windows(&profile, &runs) {
                    // Without room the next window has this one's numbers too.
                    if !queue.has_room() {
                        if offer.last {
                            queue.count_unsent();
                        }
                        continue;
                    }
                    let resource = resource_of(&window, resources, &runs);
                    let made = store.request(&mut profile, &mut window, &resource, id(), self.names);
                    ledger.take(&window);
                    match made {
                        Ok(request) => queue.put(request),
                        Err(_) => queue.count_unsent(),
                    }
                }
            }
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

fn at<T: Default>(all: &mut Vec<T>, index: usize) -> &mut T {
    if all.len() <= index {
        all.resize_with(index + 1, T::default);
    }
    &mut all[index]
}
