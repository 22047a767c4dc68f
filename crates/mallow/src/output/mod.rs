//! What commands write: text, JSON, pictures, files, exit codes. It knows no command.

pub mod destination;
pub mod exit;
pub mod json;
pub mod picture;
pub mod progress;
pub mod sarif;
pub mod stdio;
pub mod text;
