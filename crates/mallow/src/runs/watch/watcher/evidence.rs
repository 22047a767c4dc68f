//! `--save-at`: what is live is written once, before memory runs out.

use mallow_profile::ProcessId;
use mallow_report::analysis::{Watched, Which};

use super::super::saving::Finding;
use super::super::session::ReportSubject;
use super::super::snapshots::Snapshots;
use super::super::text;
use super::Watcher;
use crate::output::text::Look;
use crate::output::{json, stdio};

impl Watcher<'_> {
    /// Writes what is live once, when the program comes to the amount of `--save-at`.
    pub(super) fn save_evidence(&mut self) {
        let Self { saving: Some(saving), watch, .. } = self else { return };
        let all = (0..watch.profile().processes.len() as u32).map(ProcessId);
        let usage = match saving.look(|| all.filter_map(|process| watch.pid_here(process)).collect()) {
            Finding::Nothing => return,
            Finding::Unlimited => {
                let none = "--save-at: no limit is set, neither memory.max of a control group nor RLIMIT_AS nor RLIMIT_DATA; \
                            mallow goes on looking for one, and a size such as 2GB needs none";
                return self.say(none.to_owned());
            }
            Finding::Crossed(usage) => usage,
        };
        let directory = saving.directory().to_owned();
        let report = self.made(&ReportSubject { limit: usize::MAX, ..self.subject("save", Which::Live) });
        let memory = self.memory.of(&self.watch, &report);
        let report = Watched { memory, ..report };
        let look = Look { exact: self.look.exact, full_names: self.look.full_names, ..Look::default() };
        let (profile, unix_ms) = self.profile();
        let text = match self.flags.view.json {
            true => json::line(&report),
            false => Ok(text::report(&report, self.headline_place, &look, true, false)),
        };
        let kind = if self.flags.view.json { "json" } else { "txt" };
        let saved = text.and_then(|text| Snapshots::open(&directory)?.save(&profile, &text, kind, unix_ms / 1000));
        if let Ok(files) = &saved {
            if let Some(saving) = &mut self.saving {
                saving.end();
            }
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            self.say(format!("{}: saved {}", usage.text(&self.look), files.join(" and ")));
        }
        self.go_on(saved.map(drop));
    }

    /// A sentence, in the live view or on standard error.
    fn say(&mut self, sentence: String) {
        match &self.screen {
            Some(_) => self.state.message = Some(sentence),
            None => stdio::notify(&sentence),
        }
    }
}
