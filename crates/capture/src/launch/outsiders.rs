//! Programs that were executed out of reach of the run directory: in a mount namespace with a `/dev/shm` of its own,
//! below another root directory, as another user, without Mallow's variables, without a dynamic linker. Whoever
//! executed one noted it.

use crate::preflight;
use crate::wire::{Shared, control, unreached};
use std::collections::BTreeMap;
use std::path::Path;

/// Why a program is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// The run directory or the library cannot be opened by the program.
    Hidden,
    /// The variables that lead to the run directory and the library were not in the program's environment.
    Variables,
    Unlinked,
}

/// Names as they were given to exec, or paths of unlinked programs, and how often each was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outsiders {
    pub named: BTreeMap<(String, Obstacle), u32>,
    /// How many programs were executed out of reach beyond those that are named.
    pub more: u32,
}

impl Outsiders {
    /// What targets have noted in the control file so far.
    pub fn of(shared: &Shared) -> Self {
        let mut named = BTreeMap::new();
        for index in 0..unreached::MAX as usize {
            let at = control::UNREACHED + index * unreached::BYTES;
            let obstacle = match shared.get32(at + unreached::STATE) {
                unreached::NOTED => Obstacle::Hidden,
                unreached::WITHOUT => Obstacle::Variables,
                unreached::UNLINKED => Obstacle::Unlinked,
                _ => continue,
            };
            let name = shared.copy_bytes(at + unreached::NAME, unreached::BYTES - unreached::NAME);
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            *named.entry((String::from_utf8_lossy(name).into_owned(), obstacle)).or_default() += 1;
        }
        Self { named, more: shared.get32(control::UNREACHED_MORE) }
    }

    /// Whether a program other than an unlinked one is out of reach.
    pub fn has_hidden(&self) -> bool {
        self.more > 0 || self.named.keys().any(|(_, obstacle)| *obstacle != Obstacle::Unlinked)
    }

    /// Drops unlinked programs that `is_known` knows by the end of their path.
    pub fn drop_unlinked(&mut self, is_known: &dyn Fn(&str) -> bool) {
        self.named.retain(|(name, obstacle), _| *obstacle != Obstacle::Unlinked || !is_known(name));
    }

    pub fn count(&self) -> u32 {
        self.named.values().fold(self.more, |sum, &number| sum.saturating_add(number))
    }

    /// A clause for each name, and one for the programs without a name.
    pub fn sentences(&self) -> Vec<String> {
        let clause = |((name, obstacle), &times): (&(String, Obstacle), &u32)| match obstacle {
            Obstacle::Variables => format!("{}{}{WITHOUT}", name, often(times)),
            Obstacle::Hidden => sentence(name, times),
            Obstacle::Unlinked => unlinked(name),
        };
        let mut all: Vec<String> = self.named.iter().map(clause).collect();
        if self.more > 0 {
            all.push(sentence("other programs", self.more));
        }
        all
    }
}

/// The clause behind the name of a program that was executed without Mallow's variables.
pub const WITHOUT: &str = ", with each process that it started: LD_PRELOAD or MALLOW_DIR was taken out of its environment; leave \
                           both in it, or run mallow inside of it";

fn often(times: u32) -> String {
    if times > 1 { format!(" ({times} times)") } else { String::new() }
}

/// A clause about a program without a dynamic linker, as `mallow doctor` has it where the file is there.
fn unlinked(path: &str) -> String {
    preflight::why_program(Path::new(path), false).unwrap_or_else(|| {
        format!(
            "{path} is statically linked: its allocator is inside it, out of reach; link it dynamically (without -static)"
        )
    })
}

/// A clause about a program that cannot reach the run directory.
pub fn sentence(name: &str, times: u32) -> String {
    let often = often(times);
    format!(
        "{name}{often}, with each process that it started: a mount namespace, a root directory or a user of its own \
         puts mallow's run directory or libmallow.so out of reach; run mallow inside of it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_what_is_under_way_is_not() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(control::FILE_BYTES as u64).unwrap();
        let shared = Shared::map(&file, control::FILE_BYTES).unwrap();
        assert_eq!(Outsiders::of(&shared), Outsiders::default());
        for (index, state) in [(0, unreached::NOTED), (1, 1), (2, unreached::NOTED), (23, unreached::NOTED)] {
            let at = control::UNREACHED + index * unreached::BYTES;
            shared.set64(at + unreached::NAME, u64::from_le_bytes(*b"python3\0"));
            shared.set32(at + unreached::STATE, state);
        }
        let at = control::UNREACHED + 5 * unreached::BYTES;
        shared.set64(at + unreached::NAME, u64::from_le_bytes(*b"python3\0"));
        shared.set32(at + unreached::STATE, unreached::WITHOUT);
        shared.set32(control::UNREACHED_MORE, 2);
        let found = Outsiders::of(&shared);
        assert_eq!((found.named.get(&("python3".to_owned(), Obstacle::Hidden)), found.count()), (Some(&3), 6));
        let said = found.sentences();
        assert!(said[0].starts_with("python3 (3 times), with each process") && said.len() == 3, "{said:?}");
        assert!(said[1].starts_with("python3, with") && said[1].contains("MALLOW_DIR was taken out"), "{said:?}");
        assert!(found.has_hidden());
    }

    #[test]
    fn a_program_without_a_linker_has_its_reason() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(control::FILE_BYTES as u64).unwrap();
        let shared = Shared::map(&file, control::FILE_BYTES).unwrap();
        let at = control::UNREACHED + unreached::BYTES;
        shared.set64(at + unreached::NAME, u64::from_le_bytes(*b"/x/none\0"));
        shared.set32(at + unreached::STATE, unreached::UNLINKED);
        let found = Outsiders::of(&shared);
        assert_eq!((found.count(), found.has_hidden()), (1, false));
        assert!(found.sentences()[0].starts_with("/x/none is statically linked: "), "{found:?}");
    }
}
