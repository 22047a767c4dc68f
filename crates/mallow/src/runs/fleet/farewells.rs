//! Last profiles of members that have ended, until somebody sends them.

use std::collections::VecDeque;

use mallow_profile::Profile;

/// Profiles that are kept, at the most: some tens of kilobytes each.
const MOST: usize = 500;

/// Those that wait.
#[derive(Default)]
pub struct Farewells {
    waiting: VecDeque<(u64, Profile)>,
    /// How many of them have something in them.
    kept: usize,
    dropped: u64,
}

impl Farewells {
    /// One of a member; none if nothing was sampled in it. It is made if there is room. Without, it is counted, and an
    /// empty one stands for it: who sends them is to know that no other one comes.
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

    /// Some of them, the oldest first.
    pub fn take(&mut self, most: usize) -> Vec<(u64, Profile)> {
        let taken: Vec<_> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        self.kept -= taken.iter().filter(|(_, profile)| !profile.sites.is_empty()).count();
        taken
    }

    /// How many there was no room for, since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::Profile;
    use mallow_report::testing::parser;

    use super::{Farewells, MOST};

    #[test]
    fn they_come_in_their_order_and_those_without_room_are_counted_and_empty() {
        let mut farewells = Farewells::default();
        farewells.add(0, None::<fn() -> Profile>);
        (1..=MOST as u64 + 3).for_each(|number| farewells.add(number, Some(parser)));
        let first = farewells.take(2);
        assert_eq!((first[0].0, first[0].1.sites.len(), first[1].0), (0, 0, 1));
        assert_eq!((farewells.take_dropped(), farewells.take_dropped()), (3, 0));
        farewells.add(9999, Some(parser));
        let rest = farewells.take(usize::MAX);
        let empty: Vec<u64> = rest.iter().filter(|(_, of)| of.sites.is_empty()).map(|(number, _)| *number).collect();
        assert_eq!(empty, [MOST as u64 + 1, MOST as u64 + 2, MOST as u64 + 3]);
        assert_eq!(rest.last().map(|(number, of)| (*number, of.sites.is_empty())), Some((9999, false)));
        assert!(farewells.take(1).is_empty());
    }
}
