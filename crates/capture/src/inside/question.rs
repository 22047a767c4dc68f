//! What an image asks at its start, and what it is answered. Nothing that it wrote is trusted.

use crate::wire::{self, Shared, ask, patches};
use mallow_patch::Placed;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The directory of questions and answers, in the run directory.
pub const DIRECTORY: &str = "inside";

/// Mappings of more bytes than this are not read: a process has at most 65,530 of them.
const MAPS_MOST: usize = 16 << 20;

/// The question of an image.
pub struct Question {
    page: Shared,
    /// `PID-SERIAL`
    name: String,
    directory: PathBuf,
    /// Its number in its own pid namespace.
    pub pid: u32,
    key: u64,
    /// The text of its `/proc/self/maps`.
    pub maps: Vec<u8>,
    /// Addresses of stubs, by `enum mallow_stub`.
    pub stubs: [u64; ask::STUBS],
    /// An address in each library that it has loaded; none at its start.
    pub libraries: Vec<u64>,
}

/// The patches of a module, in memory of their own.
#[derive(Debug)]
pub struct PlacedArea {
    pub placed: Placed,
    /// The memory is there already: it was that of a library which is gone.
    pub reused: bool,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The image has the answer, and did not say yet what came of it.
    Open,
    /// The patches are written.
    Patched,
    /// They are not, for this reason.
    Failed(u32),
    /// The image did not wait so long.
    GivenUp,
}

impl Question {
    /// All that wait for an answer.
    pub fn all(run_directory: &Path) -> Vec<Self> {
        let directory = run_directory.join(DIRECTORY);
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("a-")?.to_owned()));
        names.filter_map(|name| Self::open(&directory, name)).collect()
    }

    fn open(directory: &Path, name: String) -> Option<Self> {
        let path = directory.join(format!("a-{name}"));
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
        let page = Shared::map(&file, ask::BYTES).ok()?;
        let waits = page.word32(ask::STATE).load(Ordering::Acquire) == ask::WAITS;
        if page.word32(ask::MAGIC).load(Ordering::Acquire) != ask::MAGIC_VALUE
            || page.get32(ask::VERSION) != wire::VERSION
            || !waits
        {
            return None;
        }
        let stubs = std::array::from_fn(|index| page.get64(ask::STUB + 8 * index));
        let maps = read_maps(&file, page.get32(ask::MAPS_BYTES) as usize).ok()?;
        let libraries = (0..ask::LIBRARIES).map(|index| page.get64(ask::LIBRARY + 8 * index));
        let libraries = libraries.take_while(|&address| address != 0).collect();
        let (pid, key) = (page.get32(ask::PID), page.get64(ask::KEY));
        Some(Self { page, name, directory: directory.to_owned(), pid, key, maps, stubs, libraries })
    }

    /// Writes the patches, and wakes the image. None: there is nothing to patch, and images with the same modules need
    /// not ask. Where the patches cannot be written, as in a full file system, the image goes on without.
    pub fn answer(&self, placed: Option<&[PlacedArea]>) -> io::Result<()> {
        let written = match placed {
            Some(placed) if !placed.is_empty() => {
                std::fs::write(self.directory.join(format!("r-{}", self.name)), encode(placed))
            }
            Some(_) => Ok(()),
            None => File::create(self.directory.join(format!("n-{}", self.key))).map(drop),
        };
        let has_patches = written.is_ok() && placed.is_some_and(|placed| !placed.is_empty());
        let state = if has_patches { ask::ANSWERED } else { ask::NOTHING };
        let word = self.page.word32(ask::STATE);
        let _ = word.compare_exchange(ask::WAITS, state, Ordering::AcqRel, Ordering::Relaxed);
        self.page.futex_wake(ask::STATE);
        written
    }

    /// What became of it.
    pub fn state(&self) -> State {
        match self.page.word32(ask::STATE).load(Ordering::Acquire) {
            ask::PATCHED => State::Patched,
            ask::FAILED => State::Failed(self.page.get32(ask::ERROR)),
            ask::GIVEN_UP => State::GivenUp,
            _ => State::Open,
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        for kind in ["a", "r"] {
            let _ = std::fs::remove_file(self.directory.join(format!("{kind}-{}", self.name)));
        }
    }
}

fn read_maps(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut text = vec![0; bytes.min(MAPS_MOST)];
    file.read_exact_at(&mut text, ask::BYTES as u64)?;
    Ok(text)
}

/// `struct mallow_patches` and what follows it.
fn encode(areas: &[PlacedArea]) -> Vec<u8> {
    let writes = areas.iter().map(|one| one.placed.writes.len()).sum::<usize>();
    let mut bytes = Vec::new();
    for number in [patches::MAGIC_VALUE, wire::VERSION, areas.len() as u32, writes as u32] {
        bytes.extend(number.to_le_bytes());
    }
    let mut offset = patches::BYTES + areas.len() * patches::AREA_BYTES + writes * patches::WRITE_BYTES;
    for PlacedArea { placed: one, reused } in areas {
        for number in [one.area, one.code.len() as u64, offset as u64, (*reused).into()] {
            bytes.extend(number.to_le_bytes());
        }
        offset += one.code.len();
    }
    for write in areas.iter().flat_map(|one| &one.placed.writes) {
        bytes.extend(write.at.to_le_bytes());
        for five in [write.before, write.after] {
            bytes.extend(five);
            bytes.extend([0; 3]);
        }
        bytes.extend(write.function.to_le_bytes());
        bytes.extend(write.original.to_le_bytes());
    }
    areas.iter().for_each(|one| bytes.extend(&one.placed.code));
    bytes
}

#[cfg(test)]
mod tests {
    use super::{DIRECTORY, Question};
    use crate::wire::{self, ask};

    #[test]
    fn an_answer_that_cannot_be_written_keeps_nobody_waiting() {
        let run = tempfile::tempdir().expect("a directory");
        let directory = run.path().join(DIRECTORY);
        std::fs::create_dir(&directory).expect("a directory");
        let mut text = vec![0u8; ask::BYTES];
        for (at, value) in [(ask::MAGIC, ask::MAGIC_VALUE), (ask::VERSION, wire::VERSION), (ask::STATE, ask::WAITS)] {
            text[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        std::fs::write(directory.join("a-7-1"), text).expect("a question");
        let questions = Question::all(run.path());
        assert_eq!(questions.len(), 1);
        std::fs::remove_dir_all(&directory).expect("it is there");
        assert!(questions[0].answer(None).is_err());
        assert_eq!(questions[0].page.get32(ask::STATE), ask::NOTHING);
    }
}
