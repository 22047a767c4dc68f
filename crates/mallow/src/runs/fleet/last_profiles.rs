//! Last profiles of ended processes, queued until the stores' thread sends them.

use std::collections::VecDeque;

use mallow_profile::Profile;

/// The most profiles that are queued: some tens of kilobytes each.
const MOST: usize = 500;

/// A bounded queue of last profiles, the oldest first.
#[derive(Default)]
pub struct LastProfiles {
    waiting: VecDeque<(u64, Profile)>,
    /// Number of queued profiles that have sites.
    kept: usize,
    dropped: u64,
}

impl LastProfiles {
    /// Queues the last profile of member `number`; None if nothing was sampled in it. Without room, `profile` is not
    /// called, the loss is counted, and an empty profile takes its place: the sender must learn that the member ended.
    pub fn add(&mut self, number: u64, profile: Option<impl FnOnce() -> Profile>) {
        let has_room = self.kept < MOST;
        let made = match profile {
            Some(profile) if has_room => profile(),
            Some(_) => {
                self.dropped += 1;
                Profile::default()
            }
            None => Profile::default(),
        };
        self.kept += usize::from(!made.sites.is_empty());
        self.waiting.push_back((number, made));
    }

    /// Removes the `most` oldest profiles, each with its member's number.
    pub fn take(&mut self, most: usize) -> Vec<(u64, Profile)> {
        let taken: Vec<_> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        self.kept -= taken.iter().filter(|(_, profile)| !profile.sites.is_empty()).count();
        taken
    }

    /// Profiles dropped for want of room since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;
    use mallow_report::testing::parser;

    use super::{LastProfiles, MOST};

    #[test]
    fn profiles_come_in_order_and_without_room_they_are_counted_and_empty() {
        let mut last_profiles = LastProfiles::default();
        last_profiles.add(0, None::<fn() -> Profile>);
        (1..=MOST as u64 + 3).for_each(|number| last_profiles.add(number, Some(parser)));
        let first = last_profiles.take(2);
        assert_eq!((first[0].0, first[0].1.sites.len(), first[1].0), (0, 0, 1));
        assert_eq!((last_profiles.take_dropped(), last_profiles.take_dropped()), (3, 0));
        last_profiles.add(9999, Some(parser));
        let rest = last_profiles.take(usize::MAX);
        let empty: Vec<u64> = rest.iter().filter(|(_, of)| of.sites.is_empty()).map(|(number, _)| *number).collect();
        assert_eq!(empty, [MOST as u64 + 1, MOST as u64 + 2, MOST as u64 + 3]);
        assert_eq!(rest.last().map(|(number, of)| (*number, of.sites.is_empty())), Some((9999, false)));
        assert!(last_profiles.take(1).is_empty());
    }
}
