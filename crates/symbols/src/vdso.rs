//! The kernel's own module, which is in no file.

use std::path::PathBuf;

use crate::image::{Image, ImageError};

pub(crate) use mallow_proc::VDSO as PATH;

/// The vdso of the running process: that of every process of the machine, until it boots another kernel.
pub(crate) fn image() -> Result<Image, ImageError> {
    let image = mallow_proc::vdso().map_err(ImageError::Open)?;
    let image = image.ok_or_else(|| ImageError::Format("this process has none".into()))?;
    Ok(Image::from_bytes(PathBuf::from(PATH), image.to_vec()))
}
