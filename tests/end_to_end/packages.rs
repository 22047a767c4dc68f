//! `packaging/dist`: the files of a release, as each system's own tool opens them.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Run, directory, mallow, number, workspace};

/// Runs a tool that has to succeed.
fn tool(run: Run) -> String {
    let outcome = run.go();
    assert_eq!(outcome.status, 0, "{}{}", outcome.out(), outcome.err());
    outcome.out()
}

fn made(into: &Path) -> Vec<PathBuf> {
    tool(
        Run::new(workspace().join("packaging/dist"), into)
            .arg(mallow())
            .arg(into)
            .env("LEVEL", Some("1"))
            .env("SOURCE_DATE_EPOCH", Some("1700000000")),
    );
    let mut files: Vec<_> = fs::read_dir(into).expect("the place").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn an_archive_and_two_packages_have_the_command_and_equal_bytes_each_time() {
    let (one, other) = (directory(), directory());
    let (files, again) = (made(one.path()), made(other.path()));
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap_or_default().to_string_lossy()).collect();
    let version = tool(Run::new(mallow(), one.path()).arg("--version"));
    let version = version.split_whitespace().nth(1).expect("a version");
    let processor = std::env::consts::ARCH;
    let debian = tool(Run::new("dpkg", one.path()).arg("--print-architecture"));
    assert_eq!(
        names,
        [
            "SHA256SUMS".to_owned(),
            format!("mallow-{version}-1.{processor}.rpm"),
            format!("mallow-{version}-{processor}-linux.tar.zst"),
            format!("mallow_{version}_{}.deb", debian.trim()),
        ]
    );
    for (file, second) in files.iter().zip(&again) {
        assert!(fs::read(file).expect("a file") == fs::read(second).expect("a file"), "{}", file.display());
    }
    tool(Run::new("sha256sum", one.path()).args(["--check", "SHA256SUMS"]));

    let [_, rpm, archive, deb] = &files[..] else { panic!("{files:?}") };
    let opened = |name: &str, script: &str, file: &Path| {
        let place = one.path().join(name);
        fs::create_dir(&place).expect("a directory");
        tool(Run::new("sh", &place).args(["-c", script, "sh"]).arg(file));
        place
    };
    let root = format!("mallow-{version}-{processor}-linux");
    for prefix in [
        opened("deb", "dpkg-deb --extract \"$1\" .", deb).join("usr"),
        opened("rpm", "rpm2cpio \"$1\" | cpio --quiet -idm", rpm).join("usr"),
        opened("tar", "tar --zstd -xf \"$1\"", archive).join(root),
    ] {
        let command = prefix.join("bin/mallow");
        let work = directory();
        tool(Run::new(&command, work.path()).args(["record", "--", "ls", "/"]));
        let report = tool(Run::new(&command, work.path()).args(["report", "--json"]));
        let json: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert!(number(&json, "allocations") > 10, "{json:#}");
        let pages = fs::read_dir(prefix.join("share/man/man1")).expect("manual pages").count();
        assert!(pages > 20, "{pages} in {}", prefix.display());
        assert!(prefix.join("share/bash-completion/completions/mallow").is_file(), "{}", prefix.display());
        assert!(prefix.join("share/doc/mallow/examples").is_dir(), "{}", prefix.display());
    }
}
