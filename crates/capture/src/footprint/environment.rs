//! What the environment of a process says to glibc's malloc.

use std::fs::File;
use std::io::Read;

/// The kernel hands out no more than the stack has room for; a longer one is read up to here.
const MOST: u64 = 4 << 20;
/// Each of them ends the rise of both thresholds, whatever its value is (`no_dyn_threshold`).
const VARIABLES: [&[u8]; 4] =
    [b"MALLOC_TRIM_THRESHOLD_", b"MALLOC_MMAP_THRESHOLD_", b"MALLOC_TOP_PAD_", b"MALLOC_MMAP_MAX_"];
const TUNABLES: [&[u8]; 4] =
    [b"glibc.malloc.trim_threshold", b"glibc.malloc.mmap_threshold", b"glibc.malloc.top_pad", b"glibc.malloc.mmap_max"];

/// Whether the environment with which a process began fixes glibc's thresholds. False as well where it may not be read.
pub fn fixes_thresholds(pid: u32) -> bool {
    let mut text = Vec::new();
    let read = File::open(format!("/proc/{pid}/environ")).and_then(|file| file.take(MOST).read_to_end(&mut text));
    read.is_ok() && is_fixed(&text)
}

/// Of variables that each end with a 0.
fn is_fixed(environment: &[u8]) -> bool {
    environment.split(|&byte| byte == 0).any(|variable| {
        let mut halves = variable.splitn(2, |&byte| byte == b'=');
        let (name, Some(value)) = (halves.next().unwrap_or_default(), halves.next()) else { return false };
        match name {
            b"GLIBC_TUNABLES" => value.split(|&byte| byte == b':').any(|tunable| {
                let name = tunable.split(|&byte| byte == b'=').next().unwrap_or_default();
                TUNABLES.contains(&name) && name.len() < tunable.len()
            }),
            name => VARIABLES.contains(&name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_fixed;

    #[test]
    fn a_variable_and_a_tunable_fix_thresholds() {
        for fixed in [
            &b"A=1\0MALLOC_TRIM_THRESHOLD_=131072\0B=2\0"[..],
            b"MALLOC_MMAP_THRESHOLD_=1",
            b"GLIBC_TUNABLES=glibc.malloc.check=1:glibc.malloc.trim_threshold=131072\0",
        ] {
            assert!(is_fixed(fixed), "{}", String::from_utf8_lossy(fixed));
        }
        for free in [
            &b""[..],
            b"\0=\0\xff",
            b"MALLOC_ARENA_MAX=1\0",
            b"X=MALLOC_TRIM_THRESHOLD_=1\0",
            b"MALLOC_TRIM_THRESHOLD_\0",
            b"GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.trim_threshold\0",
        ] {
            assert!(!is_fixed(free), "{}", String::from_utf8_lossy(free));
        }
    }
}
