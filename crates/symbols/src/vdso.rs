//! The kernel's own module, which is in no file.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::image::{Image, ImageError};

/// The path that stands for it.
pub(crate) const PATH: &str = "[vdso]";

/// More than any kernel's vdso has (two to four pages today).
const LIMIT: u64 = 1 << 20;

/// The vdso of the running process: that of every process of the machine, until it boots another kernel.
pub(crate) fn image() -> Result<Image, ImageError> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(ImageError::Open)?;
    let missing = || ImageError::Format("this process has none".into());
    let line = maps.lines().find(|line| line.ends_with(PATH)).ok_or_else(missing)?;
    let range = line.split(' ').next().and_then(|range| range.split_once('-')).ok_or_else(missing)?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = parse(range.0).zip(parse(range.1)).ok_or_else(missing)?;
    let size = end.checked_sub(start).filter(|&size| size <= LIMIT).ok_or_else(missing)?;
    let mut bytes = vec![0; size as usize];
    let memory = fs::File::open("/proc/self/mem").map_err(ImageError::Open)?;
    memory.read_exact_at(&mut bytes, start).map_err(ImageError::Open)?;
    Ok(Image::from_bytes(PathBuf::from(PATH), bytes))
}
