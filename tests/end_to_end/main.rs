//! End to end: the built `mallow` on real programs. `targets/` holds the programs, `harness/` what runs them.

mod agreement;
mod bad_input;
mod docs;
mod documents;
mod endings;
mod exact;
mod faces;
mod flame;
mod foreign;
mod gate;
mod go_pprof;
mod habits;
mod hostile;
mod install;
mod interruptions;
mod lifecycle;
mod limits;
mod oracle;
mod other_tools;
mod packing;
mod privileges;
mod processes;
mod programs;
mod signals;
mod threads;
mod tree;
