//! Which process a sample is of, and how precise its values are, by its labels.

use mallow_profile::{Precisions, Process, ProcessId, StackId, Stacks};
use prost::Message;
use rustc_hash::FxHashMap;

use super::fields::{Fields, damaged};
use super::kinds::label;
use super::messages::Label;
use super::precision_labels;
use super::tables::Tables;
use crate::FormatError;
use crate::builder::Builder;

/// The processes of a profile whose strings have keys of them.
pub struct Labels {
    keys: [Option<i64>; 4],
    precision_keys: [Option<i64>; 4],
    precisions: precision_labels::Reader,
    processes: FxHashMap<Key, ProcessId>,
}

/// Process id, and the numbers of the strings that name the program and the source.
type Key = (u32, i64, i64);

impl Labels {
    /// None where the profile has no key of such labels.
    pub fn of(strings: &[&[u8]]) -> Option<Self> {
        let key = |key: &str| strings.iter().position(|text| *text == key.as_bytes()).map(|at| at as i64);
        let keys = [label::PID, label::PROCESS, label::SOURCE, label::CUT].map(key);
        let precision_keys = precision_labels::KEYS.map(key);
        let some = keys.iter().chain(&precision_keys).any(Option::is_some);
        let (processes, precisions) = Default::default();
        some.then_some(Self { keys, precision_keys, precisions, processes })
    }

    /// Whether some samples have labels of processes.
    pub fn name_processes(&self) -> bool {
        self.processes.keys().any(|key| *key != Key::default())
    }

    /// The process of a sample, the root that its stack stands upon, and how precise its values are.
    pub fn read(
        &mut self,
        sample: &[u8],
        tables: &Tables,
        builder: &mut Builder,
    ) -> Result<(ProcessId, StackId, Option<Precisions>), FormatError> {
        /// Number of the field of samples that holds labels.
        const LABEL: u32 = 3;
        let (mut key, mut root) = (Key::default(), Stacks::ROOT);
        for field in Fields::of(sample) {
            let field = field?;
            if field.number != LABEL {
                continue;
            }
            let bytes = field.value.bytes()?;
            let label = Label::decode(bytes).map_err(|error| damaged(tables.all, bytes, &error.to_string()))?;
            let [pid, process, source, cut] = self.keys.map(|key| key == Some(label.key));
            match () {
                () if pid => key.0 = u32::try_from(label.num).unwrap_or(0),
                () if process => key.1 = label.str,
                () if source => key.2 = label.str,
                () if cut && label.num != 0 => root = Stacks::CUT_ROOT,
                () => {
                    if let Some(at) = self.precision_keys.iter().position(|known| *known == Some(label.key)) {
                        self.precisions.add(at, label.num);
                    }
                }
            }
        }
        let precisions = self.precisions.take();
        if let Some(&known) = self.processes.get(&key) {
            return Ok((known, root, precisions));
        }
        let program = tables.text(key.1).into_owned();
        let process = Process {
            pid: key.0,
            arguments: Some(program).filter(|program| !program.is_empty()).into_iter().collect(),
            source: tables.text(key.2).into_owned(),
            ..Process::default()
        };
        let id = match self.processes.is_empty() {
            true => {
                builder.process = Process { executable: std::mem::take(&mut builder.process.executable), ..process };
                ProcessId(0)
            }
            false => builder.add_process(process),
        };
        self.processes.insert(key, id);
        Ok((id, root, precisions))
    }
}
