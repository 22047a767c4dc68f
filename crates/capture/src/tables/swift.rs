//! Async functions of Swift, by their symbols.

/// The function whose async function pointer this symbol names: each async function has one, with the size of its
/// context.
pub(super) fn pointed_to(symbol: &[u8]) -> Option<&[u8]> {
    symbol.strip_suffix(b"Tu").filter(|name| is_swift(name))
}

/// Whether a symbol names a part of an async function that begins with the function's own context: behind a change of
/// the executor (`TY`). A part behind an `await` (`TQ`) begins with the context of the function that ended, and has a
/// frame.
pub(super) fn continues(symbol: &[u8]) -> bool {
    let name = symbol.split(|&byte| byte == b'.').next().unwrap_or_default();
    let Some(name) = name.strip_suffix(b"_") else { return false };
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    is_swift(name) && name.get(..name.len() - digits).is_some_and(|name| name.ends_with(b"TY"))
}

fn is_swift(name: &[u8]) -> bool {
    name.starts_with(b"$s") || name.starts_with(b"$e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_swift_tell_async_functions() {
        assert_eq!(
            pointed_to(b"$s6async26handleyS2i_AA5CacheCtYaFTu"),
            Some(&b"$s6async26handleyS2i_AA5CacheCtYaF"[..])
        );
        assert_eq!(pointed_to(b"StatusTu"), None);
        let parts = [
            (&b"$s6async211fetchRemoteyAA7PayloadCSiYaFTY2_"[..], true),
            (b"$s6async211fetchRemoteyAA7PayloadCSiYaFTY12_.resume.0", true),
            (b"$s6async211fetchRemoteyAA7PayloadCSiYaFTQ1_", false),
            (b"$s6async211fetchRemoteyAA7PayloadCSiYaF", false),
            (b"emptyTY0_", false),
            (b"$s_", false),
            (b"", false),
        ];
        for (name, expected) in parts {
            assert_eq!(continues(name), expected, "{}", name.escape_ascii());
        }
    }
}
