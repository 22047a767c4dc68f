//! Makes the table of the page's files: each file of `src/page/assets/` is part of the command.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let assets = Path::new("src/page/assets");
    println!("cargo::rerun-if-changed={}", assets.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(assets)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut table = "&[\n".to_owned();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let (name, path) = (file.file_name().unwrap_or_default(), fs::canonicalize(&file)?);
        writeln!(table, "({name:?}, include_bytes!({path:?}) as &[u8]),").map_err(io::Error::other)?;
    }
    table += "]\n";
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("assets.rs"), table)
}
