//! Files that are never lost.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file beside and renames it: the old one is there until the new one is whole.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    // A link stays one.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let directory = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".mallow-test-").tempfile_in(directory).map_err(|e| failed(&e))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(|error| failed(&error))?;
    let mode = place.metadata().map_or(0o644, |old| old.permissions().mode());
    file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(|error| failed(&error))?;
    file.persist(&place).map_err(|error| failed(&error.error))?;
    Ok(())
}
