//! How long a process stands still for a stop: `cargo run --release -p mallow-patch --example pause`.
//!
//! Stops a program with 1 and with 64 busy and sleeping threads a thousand times, and prints the median and the 99th
//! percentile of the whole stop: from the first thread that is seized to the last one that is let go.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STOPS: usize = 1000;

fn main() {
    for threads in [1, 64] {
        let script = format!(
            "import threading, time\nfor _ in range({threads} - 1): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n\
             while True: pass"
        );
        let python = Command::new("python3").args(["-c", &script]).stdout(Stdio::null()).spawn();
        let Ok(mut target) = python else { return eprintln!("python3 is needed") };
        std::thread::sleep(Duration::from_secs(1));
        let pauses = pauses(&target);
        println!("{threads} threads: p50 {:?}, p99 {:?}", pauses[STOPS / 2], pauses[STOPS * 99 / 100]);
        let _ = target.kill();
        let _ = target.wait();
    }
}

/// Pauses of all stops, sorted.
fn pauses(target: &Child) -> Vec<Duration> {
    let stop = |_| {
        let begin = Instant::now();
        let stopped = mallow_patch::stop(target.id(), Duration::from_secs(10), |_| ());
        stopped.map(|()| begin.elapsed()).unwrap_or(Duration::MAX)
    };
    let mut all: Vec<_> = (0..STOPS).map(stop).collect();
    all.sort_unstable();
    all
}
