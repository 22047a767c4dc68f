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

/// A question that waits for its answer in the run directory; dropping it removes the files of both.
pub struct Question {
    page: Shared,
    /// `PID-SERIAL`: what the names of both files end with.
    name: String,
    directory: PathBuf,
    /// Process id in the asking image's own pid namespace.
    pub pid: u32,
    key: u64,
    /// Text of the image's `/proc/self/maps`, cut at [`MAPS_MOST`].
    pub maps: Vec<u8>,
    /// Addresses of the image's stubs, by `enum mallow_stub`.
    pub stubs: [u64; ask::STUBS],
    /// An address in each library that the image has loaded since its start; empty: the question comes at its start.
    pub libraries: Vec<u64>,
}

#[derive(Debug)]
pub struct PlacedArea {
    pub placed: Placed,
    /// The memory is mapped already: it held the patches of a library that is gone.
    pub reused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The image has reported nothing yet.
    Open,
    Patched,
    /// The patches are not written: a number of `errno`, or one of `wire::ask`'s `THREADS` and `CHANGED`.
    Failed(u32),
    /// The image stopped waiting before the answer came.
    GivenUp,
}

impl Question {
    /// The questions of a run directory that wait for an answer; files that are no such question are passed over.
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

    /// What the image has reported of the answer so far.
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
