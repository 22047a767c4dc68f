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
fn each_file_of_a_release_has_the_command_and_equal_bytes_each_time() {
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
            format!("mallow-{version}-{}.oci.tar", debian.trim()),
            format!("mallow-{version}-py3-none-manylinux_2_17_{processor}.musllinux_1_1_{processor}.whl"),
            format!("mallow-{version}-{processor}-linux.tar.zst"),
            format!("mallow-{version}.cdx.json"),
            format!("mallow_{version}_{}.deb", debian.trim()),
        ]
    );
    for (file, second) in files.iter().zip(&again) {
        assert!(fs::read(file).expect("a file") == fs::read(second).expect("a file"), "{}", file.display());
    }
    tool(Run::new("sha256sum", one.path()).args(["--check", "SHA256SUMS"]));

    let [_, rpm, image, wheel, archive, components, deb] = &files[..] else { panic!("{files:?}") };
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
    a_wheel_brings_the_command_and_the_module(wheel, version);
    an_image_holds_the_command_alone(image, version);
    let judge = workspace().join("tests/judges/components.py");
    tool(Run::new(python(), one.path()).arg(judge).arg(components));
    let made: serde_json::Value = serde_json::from_slice(&fs::read(components).expect("a file")).expect("JSON");
    let names: Vec<_> = made["components"].as_array().expect("components").iter().map(|one| &one["name"]).collect();
    // What tests and build scripts use is not linked into it.
    assert!(names.contains(&&"gimli".into()) && !names.contains(&&"proptest".into()), "{names:?}");
    assert!(!names.contains(&&"cc".into()) && !names.contains(&&"clap_derive".into()), "{names:?}");
}

fn python() -> PathBuf {
    workspace().join("build/judges/venv/bin/python")
}

fn a_wheel_brings_the_command_and_the_module(wheel: &Path, version: &str) {
    let place = directory();
    let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--target", "."];
    tool(Run::new(python(), place.path()).args(pip).arg(wheel));
    assert_eq!(tool(Run::new(place.path().join("bin/mallow"), place.path()).arg("--version")), tool_version(version));
    tool(Run::new(python(), place.path()).args(["-c", "import mallow; mallow.measure('a', lambda: 1)"]));
}

/// Opened by another implementation of the format, and run without anything beside it.
fn an_image_holds_the_command_alone(image: &Path, version: &str) {
    let place = directory();
    let (from, to) = (format!("oci-archive:{}:{version}", image.display()), "dir:unpacked");
    tool(Run::new("skopeo", place.path()).args(["--insecure-policy", "copy", "--quiet", &from, to]));
    let manifest = fs::read(place.path().join("unpacked/manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let layer =
        manifest["layers"][0]["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a layer");
    let root = place.path().join("root");
    fs::create_dir(&root).expect("a directory");
    tool(Run::new("tar", &root).args(["-xzf", &format!("../unpacked/{layer}")]));
    let run =
        Run::new("unshare", place.path()).args(["--map-root-user", "chroot", "root", "/usr/bin/mallow", "--version"]);
    assert_eq!(tool(run), tool_version(version));
}

fn tool_version(version: &str) -> String {
    format!("mallow {version}\n")
}
