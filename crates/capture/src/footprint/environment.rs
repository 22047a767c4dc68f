//! What the environment of a process says to its allocators.

use std::fs::File;
use std::io::Read;

/// Most bytes of an environment that are read; the kernel hands out no more than the stack has room for.
const MOST: u64 = 4 << 20;
/// Variables that end the rise of both of glibc's thresholds, whatever their values are (`no_dyn_threshold`).
const VARIABLES: [&[u8]; 4] =
    [b"MALLOC_TRIM_THRESHOLD_", b"MALLOC_MMAP_THRESHOLD_", b"MALLOC_TOP_PAD_", b"MALLOC_MMAP_MAX_"];
const TUNABLES: [&[u8]; 4] =
    [b"glibc.malloc.trim_threshold", b"glibc.malloc.mmap_threshold", b"glibc.malloc.top_pad", b"glibc.malloc.mmap_max"];

/// Settings of a process, and the length of one: more are none that somebody set by hand.
const SETTINGS_MOST: usize = 16;
const SETTING_MOST: usize = 1024;

/// The environment with which a process began: variables that each end with a 0. Empty where it may not be read.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<u8>);

impl Environment {
    pub fn of(pid: u32) -> Self {
        let mut text = Vec::new();
        let read = File::open(format!("/proc/{pid}/environ")).and_then(|file| file.take(MOST).read_to_end(&mut text));
        read.map(|_| Self(text)).unwrap_or_default()
    }

    fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|&byte| byte == 0).filter_map(|variable| {
            let at = variable.iter().position(|&byte| byte == b'=')?;
            Some((&variable[..at], &variable[at + 1..]))
        })
    }

    /// Whether a variable fixes glibc's thresholds.
    pub fn fixes_thresholds(&self) -> bool {
        self.variables().any(|(name, value)| match name {
            b"GLIBC_TUNABLES" => value.split(|&byte| byte == b':').any(|tunable| {
                let name = tunable.split(|&byte| byte == b'=').next().unwrap_or_default();
                TUNABLES.contains(&name) && name.len() < tunable.len()
            }),
            name => VARIABLES.contains(&name),
        })
    }

    /// What jemalloc, of whatever prefix, tcmalloc and mimalloc may read, as NAME=VALUE.
    pub fn settings(&self) -> Vec<String> {
        let is_read = |name: &[u8]| {
            name.ends_with(b"MALLOC_CONF") || name.starts_with(b"MIMALLOC_") || name.starts_with(b"TCMALLOC_")
        };
        let read = self.variables().filter(|(name, value)| is_read(name) && name.len() + value.len() < SETTING_MOST);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        read.take(SETTINGS_MOST).map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;

    fn is_fixed(text: &[u8]) -> bool {
        Environment(text.to_vec()).fixes_thresholds()
    }

    #[test]
    fn settings_are_of_allocators_that_read_them() {
        let settings = |text: &[u8]| Environment(text.to_vec()).settings();
        let all = b"A=1\0MIMALLOC_PURGE_DELAY=0\0_RJEM_MALLOC_CONF=a:1,b:2\0MALLOC_CONF=\0TCMALLOC_AGGRESSIVE_DECOMMIT=t\0XMALLOC_CONFS=1\0MIMALLOC_";
        let expected =
            ["MIMALLOC_PURGE_DELAY=0", "_RJEM_MALLOC_CONF=a:1,b:2", "MALLOC_CONF=", "TCMALLOC_AGGRESSIVE_DECOMMIT=t"];
        assert_eq!(settings(all), expected);
        assert!(settings(b"").is_empty() && settings(b"PASSWORD=MALLOC_CONF=1").is_empty());
        let long = [&b"MALLOC_CONF="[..], &[b'x'; 2000], b"\0MIMALLOC_VERBOSE=\xff"].concat();
        assert_eq!(settings(&long), ["MIMALLOC_VERBOSE=\u{fffd}"]);
    }

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
