//! The words of a command line, as the kernel shows it.

/// The words of `/proc/PID/cmdline`. `titled`: the process may have written a title over them, as setproctitle does,
/// which leaves NUL bytes or spaces behind it: they are no words.
pub fn words(bytes: &[u8], titled: bool) -> Vec<&[u8]> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let end = match titled {
        true => bytes.iter().rposition(|&byte| byte != 0 && byte != b' ').map_or(0, |last| last + 1),
        false => bytes.len(),
    };
    if end == 0 { Vec::new() } else { bytes[..end].split(|&byte| byte == 0).collect() }
}

/// The words of [`words`] as text.
pub fn texts(bytes: &[u8], titled: bool) -> Vec<String> {
    words(bytes, titled).into_iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn padding_behind_a_title_is_no_argument() {
        let text = |bytes: &[u8], titled| {
            let words = words(bytes, titled).into_iter().map(|word| String::from_utf8_lossy(word).into_owned());
            words.collect::<Vec<_>>()
        };
        assert_eq!(text(b"server *:6379\0\0\0\0\0", true), ["server *:6379"]);
        assert_eq!(text(b"worker: idle    \0", true), ["worker: idle"]);
        assert_eq!(text(b"program\0a b\0", true), ["program", "a b"]);
        // The user's own.
        assert_eq!(text(b"program\0\0", false), ["program", ""]);
        assert_eq!(text(b"program\0 \0", false), ["program", " "]);
        assert_eq!(text(b"program", false), ["program"]);
        for titled in [false, true] {
            assert!(text(b"", titled).is_empty() && text(b"\0", titled).is_empty());
        }
    }
}
