//! Tokens: what a request has to know.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use subtle::ConstantTimeEq;

/// Bytes of a random token.
const RANDOM: usize = 16;
/// Characters that a token has at least: fewer can be guessed.
const SHORTEST: usize = 16;
/// Limit of a token's characters: a longer one fits no request.
const LONGEST: usize = 512;

/// A secret that requests carry. Debug output does not show it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// 128 random bits from the kernel, as hexadecimal digits.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; RANDOM];
        let mut filled = 0;
        while filled < RANDOM {
            match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
                Ok(length) => filled += length,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// A token that the user chose. The error says what is wrong with it, without showing it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() < SHORTEST {
            return Err("a token needs 16 characters or more");
        }
        if text.len() > LONGEST {
            return Err("a token has 512 characters at most");
        }
        // What a URL, a cookie and a header all carry unchanged.
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)) {
            return Err("a token has letters, digits and -_.~ alone");
        }
        Ok(Self(text.to_owned()))
    }

    /// The token itself, for the address that is printed once.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request carries this token; the time of the comparison says nothing of where they differ.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_random_token_is_new_each_time() {
        let (first, second) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(first.text().len(), 32);
        assert!(first.is(first.text()) && !first.is(second.text()));
        assert!(Token::parse(first.text()).is_ok());
        assert_eq!(format!("{first:?}"), "Token");
    }

    #[test]
    fn a_token_differs_from_its_parts() {
        let token = Token::parse("0123456789abcdef").unwrap();
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", "1123456789abcdef"] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn chosen_tokens_are_long_and_plain() {
        for wrong in [
            "short",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdef;",
            "0123456789abcdef\n",
            &"a".repeat(513),
        ] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
    }
}
