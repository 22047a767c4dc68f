//! Which package of the distribution brings a file's debug information.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Asks the package manager that is here; files of no package, or where there is none, are left out. Starts a process
/// or two, for all files together that were not asked for before: 50 ms. Who asks meanwhile waits.
pub(crate) fn debug_packages(paths: &[&str]) -> HashMap<String, String> {
    /// The package's advice by path; None of a file of no package. The documents of a page name the same files.
    static ANSWERS: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    // Nothing that a shell would take apart is given to one; but answers are read line by line.
    let is_plain = |path: &&str| path.starts_with('/') && !path.contains(char::is_control);
    let new: Vec<&str> = paths.iter().copied().filter(is_plain).filter(|path| !answers.contains_key(*path)).collect();
    if !new.is_empty() {
        let packages = dpkg(&new).or_else(|| rpm(&new)).unwrap_or_default();
        answers.extend(new.iter().map(|path| ((*path).to_owned(), packages.get(*path).map(Package::advice))));
    }
    paths.iter().filter_map(|path| Some(((*path).to_owned(), answers.get(*path)?.clone()?))).collect()
}

enum Package {
    Debian(String),
    Rpm(String),
}

impl Package {
    fn advice(&self) -> String {
        match self {
            Self::Rpm(name) => format!("dnf debuginfo-install {name} brings them"),
            Self::Debian(name) => match debian_dbg(name) {
                Some(dbg) => format!("apt install {dbg} brings them"),
                None => format!("apt install {name}-dbgsym, from the debug archive, brings them"),
            },
        }
    }
}

/// The few packages whose debug files are in the main archive. All others have theirs in `…-dbgsym`, in an archive of
/// its own: debian-debug, or Ubuntu's ddebs.
fn debian_dbg(package: &str) -> Option<String> {
    let python = package.strip_prefix("lib").unwrap_or(package);
    if let Some(rest) = python.strip_prefix("python3.") {
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return Some(format!("python3.{minor}-dbg"));
    }
    let own = matches!(package, "libc6" | "libbinutils" | "libctf0" | "libctf-nobfd0" | "libgprofng0")
        || package.starts_with("binutils-") && !package.ends_with("-common");
    own.then(|| format!("{package}-dbg"))
}

fn output(program: &str, arguments: &[String]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null());
    Some(String::from_utf8_lossy(&command.output().ok()?.stdout).into_owned())
}

/// `libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6`. dpkg knows a file by the path that its package has, with or without
/// the `/usr` that the dynamic linker may have taken it from, and without the `..` of a run path. Of a link that an
/// administrator made (`/etc/alternatives`), it knows the file.
fn dpkg(paths: &[&str]) -> Option<HashMap<String, Package>> {
    let names = |path: &str| {
        let direct = without_parents(path);
        let file = std::fs::canonicalize(path).ok().map(|file| file.display().to_string());
        let moved = |path: &str| path.strip_prefix("/usr").map_or_else(|| format!("/usr{path}"), str::to_owned);
        let both = [Some(direct), file].into_iter().flatten().flat_map(|path| [moved(&path), path]);
        both.collect::<BTreeSet<String>>()
    };
    let asked: Vec<(&str, BTreeSet<String>)> = paths.iter().map(|path| (*path, names(path))).collect();
    let mut arguments = vec!["--search".to_owned(), "--".to_owned()];
    for name in asked.iter().flat_map(|(_, names)| names) {
        let special = |c| matches!(c, '*' | '?' | '[' | '\\').then_some('\\');
        arguments.push(name.chars().flat_map(|c| special(c).into_iter().chain([c])).collect());
    }
    let answer = output("dpkg-query", &arguments)?;
    let mut found = HashMap::new();
    for line in answer.lines().filter(|line| !line.starts_with("diversion by ")) {
        let Some((packages, path)) = line.split_once(": ") else { continue };
        let package = packages.split(", ").next().and_then(|first| first.split(':').next()).unwrap_or_default();
        for (asked, _) in asked.iter().filter(|(_, names)| names.contains(path)) {
            found.insert((*asked).to_owned(), Package::Debian(package.to_owned()));
        }
    }
    Some(found)
}

/// The path without `.` and `..`: `/usr/bin/../lib/a.so` is `/usr/lib/a.so`. Of the directories before a `..`, none may
/// be a link that leads elsewhere: distributions' run paths go through none.
fn without_parents(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/').filter(|step| !step.is_empty() && *step != ".") {
        if step == ".." {
            steps.pop();
        } else {
            steps.push(step);
        }
    }
    format!("/{}", steps.join("/"))
}

/// One line for each file, in their order.
fn rpm(paths: &[&str]) -> Option<HashMap<String, Package>> {
    let mut arguments = ["--query", "--file", "--queryformat", "%{NAME}\\n", "--"].map(str::to_owned).to_vec();
    arguments.extend(paths.iter().map(|&path| path.to_owned()));
    let answer = output("rpm", &arguments)?;
    let named = |(path, line): (&&str, &str)| {
        (!line.contains(' ')).then(|| ((*path).to_owned(), Package::Rpm(line.to_owned())))
    };
    // What rpm says of files of no package, it says on the same stream, in a sentence.
    Some(paths.iter().zip(answer.lines()).filter_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_path_leads_to_the_files_of_a_package() {
        for (path, expected) in [
            ("/usr/bin/../lib/libbinaryen.so", "/usr/lib/libbinaryen.so"),
            ("/lib/x86_64-linux-gnu/./libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
            ("/../a.so", "/a.so"),
        ] {
            assert_eq!(without_parents(path), expected);
        }
    }

    #[test]
    fn debug_packages_have_the_names_that_debian_gives_them() {
        for (package, dbg) in [
            ("libc6", Some("libc6-dbg")),
            ("python3.11-minimal", Some("python3.11-dbg")),
            ("libpython3.11", Some("python3.11-dbg")),
            ("binutils-x86-64-linux-gnu", Some("binutils-x86-64-linux-gnu-dbg")),
            ("python3-minimal", None),
            ("sqlite3", None),
        ] {
            assert_eq!(debian_dbg(package).as_deref(), dbg, "{package}");
        }
        let advice = Package::Debian("sqlite3".to_owned()).advice();
        assert_eq!(advice, "apt install sqlite3-dbgsym, from the debug archive, brings them");
        assert_eq!(Package::Rpm("zlib".to_owned()).advice(), "dnf debuginfo-install zlib brings them");
    }

    /// Where there is no dpkg, there is no Debian to ask.
    #[test]
    fn files_are_asked_for_in_either_place_and_hostile_names_match_nothing() {
        let libc = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"];
        let tool = "/bin/dpkg-query";
        let asked = [
            &libc[..],
            &[tool, "/usr/lib/x86_64-linux-gnu/libc.so.*", "/usr/bin/d[p]kg", "/a\nb: /bin/sh", "dpkg", ""],
        ]
        .concat();
        let found = debug_packages(&asked);
        match Command::new("dpkg-query").arg("--version").output() {
            Ok(_) => {
                assert_eq!(found.len(), 3, "{found:?}");
                assert!(found[tool].starts_with("apt install dpkg-dbgsym"), "{found:?}");
                assert!(libc.iter().all(|path| found[*path] == "apt install libc6-dbg brings them"), "{found:?}");
            }
            Err(_) => assert!(found.keys().all(|path| libc.contains(&path.as_str()) || path == tool), "{found:?}"),
        }
    }
}
