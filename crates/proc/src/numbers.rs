//! Numbers in bytes that need not be text. None: a byte that is no digit, no digit at all, or more than fits.

pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits, 10)
}

pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    number(digits, 16)
}

/// `None` for a number that is larger than 32 bits, too.
pub(crate) fn short(digits: &[u8]) -> Option<u32> {
    decimal(digits)?.try_into().ok()
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let add = |sum: u64, &digit: &u8| {
        let digit = char::from(digit).to_digit(radix)?;
        sum.checked_mul(radix.into())?.checked_add(digit.into())
    };
    digits.iter().try_fold(0, add).filter(|_| !digits.is_empty())
}
