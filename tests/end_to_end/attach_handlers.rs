//! A thread that a signal interrupted below a call of mallow's library, and that stays in the handler while mallow
//! detaches.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{directory, program};

use crate::attach_harness::{Target, attaching, code, finished, interrupt};

fn has_joined(target: &Target) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).expect("its mappings");
    maps.lines().any(|line| line.ends_with("/control"))
}

/// The run's files stay mapped until the thread is out: it goes on with them.
fn stays_in_a_handler(stack: &str, handler: &str) {
    let (place, what) = (directory(), format!("{handler} handler, {stack} stack"));
    let mut target = Target::ready(Command::new(program("handler_stacks")).args([stack, handler]));
    let (clean, text) = (code(target.pid()), target.text());
    let mallow = attaching(&["record", "--no-report", "-o", "x.mallow"], target.pid(), place.path());
    assert_eq!(target.ask(), "held", "{what}");
    interrupt(&mallow);
    let deadline = Instant::now() + Duration::from_secs(60);
    while code(target.pid()) != clean {
        assert!(Instant::now() < deadline, "{what}: the code is not restored");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Mallow has looked at the threads some times by then.
    std::thread::sleep(Duration::from_millis(500));
    assert!(has_joined(&target), "{what}: mallow left while a thread was in the library");
    assert_eq!(target.ask(), "gone on", "{what}");
    let said = finished(mallow);
    assert!(!said.contains("warning"), "{what}: {said}");
    assert!(!has_joined(&target) && target.text() == text, "{what}");
}

#[test]
fn a_handler_on_the_threads_own_stack_is_waited_for() {
    stays_in_a_handler("own", "compiled");
}

#[test]
fn a_handler_on_another_stack_is_waited_for() {
    stays_in_a_handler("other", "compiled");
}

#[test]
fn generated_code_in_a_handler_is_waited_for() {
    stays_in_a_handler("own", "written");
}

#[test]
fn generated_code_in_a_handler_on_another_stack_is_waited_for() {
    stays_in_a_handler("other", "written");
}
