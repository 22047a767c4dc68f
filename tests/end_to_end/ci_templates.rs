//! The files of `examples/ci/` and the manifest of hooks, as those who read them judge, and with their steps carried
//! out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::{Project, Run, directory, mallow, tool, workspace};
use serde_json::Value;

use crate::other_tools::ran;

const ACTION: &str = "examples/ci/github/action.yml";
const TEMPLATE: &str = "examples/ci/gitlab.yml";
const HOOKS: &str = ".pre-commit-hooks.yaml";

/// What the judge finds in them, of which one may be another file.
fn judged(action: &Path, template: &Path, hooks: &Path) -> Value {
    let (root, place) = (workspace(), directory());
    let python = Run::new(root.join("build/judges/venv/bin/python"), place.path());
    let found = ran(python.arg(root.join("tests/judges/ci.py")).arg(action).arg(template).arg(hooks));
    serde_json::from_slice(&found.stdout).expect("JSON")
}

fn shipped() -> Value {
    let root = workspace();
    judged(&root.join(ACTION), &root.join(TEMPLATE), &root.join(HOOKS))
}

#[test]
fn github_gitlab_and_pre_commit_accept_their_files() {
    assert_eq!(shipped()["faults"], serde_json::json!([]));
    let place = directory();
    let faulty = |name: &str, from: &str, to: &str| -> PathBuf {
        let text = fs::read_to_string(workspace().join(name)).expect("a file");
        assert!(text.contains(from), "{text}");
        let path = place.path().join(Path::new(name).file_name().expect("a name"));
        fs::write(&path, text.replace(from, to)).expect("a file");
        path
    };
    let action = faulty(ACTION, "shell: bash", "shel: bash");
    let template = faulty(TEMPLATE, "when: always", "when: sometimes");
    let hooks = faulty(HOOKS, "language: system", "language: cobol");
    let found = judged(&action, &template, &hooks)["faults"].to_string();
    for fault in ["shel", "sometimes", "cobol"] {
        assert!(found.contains(fault), "{fault}: {found}");
    }
}

/// A release with the command alone, and its version.
fn release(place: &Path) -> String {
    let said = Run::new(mallow(), place).arg("--version").go().out();
    let version = said.split_whitespace().nth(1).expect("a version").to_owned();
    let name = format!("mallow-{version}-x86_64-linux");
    let bin = place.join(&name).join("bin");
    fs::create_dir_all(&bin).expect("a directory");
    fs::copy(mallow(), bin.join("mallow")).expect("a copy");
    let script = format!("tar --zstd -cf {name}.tar.zst {name} && sha256sum {name}.tar.zst > SHA256SUMS");
    ran(Run::new("sh", place).args(["-c", &script]));
    version
}

/// One case, whose baseline is made.
fn project() -> Project {
    let project = Project::of_regions(&["steady"]);
    project.update();
    project
}

/// Takes allocations out of the baseline, so that the program has more.
fn regress(project: &Project) {
    let path = project.path().join("mallow.baseline.json");
    let text = fs::read_to_string(&path).expect("a baseline");
    let figure = |line: &str| line.trim_start().starts_with("\"total_allocations\":");
    let lower = |line: &str| if figure(line) { "\"total_allocations\": 1,".to_owned() } else { line.to_owned() };
    let lowered: Vec<_> = text.lines().map(lower).collect();
    assert!(text.lines().any(figure), "{text}");
    fs::write(&path, lowered.join("\n")).expect("a baseline");
}

/// A script in the project, as both services run it.
fn run(project: &Project, script: &str, environment: &[(String, String)]) -> Output {
    let mut bash = Command::new(tool("bash"));
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).current_dir(project.path());
    bash.envs(environment.iter().map(|(name, value)| (name, value))).output().expect("bash")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A runner of GitHub's: the files that its steps write, and the inputs.
struct Runner {
    place: tempfile::TempDir,
    inputs: Vec<(&'static str, String)>,
}

impl Runner {
    fn new(inputs: Vec<(&'static str, String)>) -> Self {
        let place = directory();
        for name in ["path", "summary"] {
            fs::write(place.path().join(name), "").expect("a file");
        }
        Self { place, inputs }
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.place.path().join(name)).expect("a file")
    }

    fn step(&self, action: &Value, name: &str, project: &Project) -> Output {
        let steps = action["runs"]["steps"].as_array().expect("steps");
        let step = steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("{name}: {action:#}"));
        let with_inputs = |value: &str| {
            let given = self.inputs.iter().fold(value.to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{{ inputs.{name} }}}}"), value)
            });
            let defaults = action["inputs"].as_object().expect("inputs").iter().fold(given, |text, (name, input)| {
                let default = input["default"].as_str().unwrap_or_default();
                text.replace(&format!("${{{{ inputs.{name} }}}}"), default)
            });
            assert!(!defaults.contains("${{"), "{defaults}");
            defaults
        };
        let own = step["env"].as_object().expect("an environment").iter();
        let mut environment: Vec<_> =
            own.map(|(name, value)| (name.clone(), with_inputs(value.as_str().expect("a text")))).collect();
        let place = |name: &str| self.place.path().join(name).to_str().expect("a path").to_owned();
        let added = self.file("path").lines().map(|line| format!("{line}:")).collect::<String>();
        environment.extend([
            ("RUNNER_TEMP".to_owned(), place("")),
            ("GITHUB_PATH".to_owned(), place("path")),
            ("GITHUB_STEP_SUMMARY".to_owned(), place("summary")),
            ("PATH".to_owned(), added + &std::env::var("PATH").expect("a path")),
        ]);
        run(project, step["run"].as_str().expect("a script"), &environment)
    }
}

#[test]
fn the_action_installs_a_release_gates_and_guards() {
    let (files, project, action) = (directory(), project(), shipped()["action"].take());
    let version = release(files.path());
    let url = format!("file://{}", files.path().display());
    let runner = Runner::new(vec![("release", url), ("guard", "ls | cat".to_owned())]);
    let installed = runner.step(&action, "Install Mallow", &project);
    assert!(installed.status.success(), "{}", text(&installed));
    assert!(runner.file("path").contains(&format!("mallow-{version}-x86_64-linux/bin")), "{}", runner.file("path"));
    let gated = runner.step(&action, "Allocations", &project);
    assert!(gated.status.success(), "{}", text(&gated));
    assert!(runner.file("summary").contains("steady"), "{}", runner.file("summary"));
    let guarded = runner.step(&action, "Memory errors", &project);
    assert!(guarded.status.success(), "{}", text(&guarded));
    for report in ["allocations.xml", "memory-errors.xml"] {
        let xml = fs::read_to_string(project.path().join(report)).expect("a report");
        assert!(roxmltree::Document::parse(&xml).is_ok(), "{xml}");
    }
    // More allocations than in the baseline end the job.
    regress(&project);
    let regressed = runner.step(&action, "Allocations", &project);
    assert!(regressed.status.code() == Some(1) && text(&regressed).contains("::error"), "{}", text(&regressed));
    // What is not the release's archive is not unpacked.
    let archive = files.path().join(format!("mallow-{version}-x86_64-linux.tar.zst"));
    fs::write(&archive, "another").expect("a file");
    let other = runner.step(&action, "Install Mallow", &project);
    assert!(!other.status.success() && text(&other).contains("FAILED"), "{}", text(&other));
}

#[test]
fn the_jobs_of_gitlab_install_a_release_gate_and_guard() {
    let (files, found) = (directory(), shipped());
    let version = release(files.path());
    let url = format!("file://{}", files.path().display());
    let value = |name: &str| match name {
        "release" => url.clone(),
        "version" => version.clone(),
        "guard" => "ls | cat".to_owned(),
        _ => found["inputs"][name]["default"].as_str().expect("a default").to_owned(),
    };
    let names: Vec<_> = found["inputs"].as_object().expect("inputs").keys().collect();
    let with_inputs = |text: &str| {
        names.iter().fold(text.to_owned(), |text, name| text.replace(&format!("$[[ inputs.{name} ]]"), &value(name)))
    };
    let base = &found["jobs"][".mallow"]["variables"];
    for (job, report) in [(".mallow-test", "allocations.xml"), (".mallow-guard", "memory-errors.xml")] {
        let (project, job) = (project(), &found["jobs"][job]);
        let own = job["variables"].as_object().into_iter().flatten();
        let all = base.as_object().expect("variables").iter().chain(own);
        let environment: Vec<_> =
            all.map(|(name, text)| (name.clone(), with_inputs(text.as_str().expect("a text")))).collect();
        let lines = job["script"].as_array().expect("a script").iter();
        let script: Vec<_> = lines.map(|line| with_inputs(line.as_str().expect("a line"))).collect();
        let ended = run(&project, &script.join("\n"), &environment);
        assert!(ended.status.success(), "{}", text(&ended));
        assert_eq!(job["artifacts"]["reports"]["junit"], report);
        let xml = fs::read_to_string(project.path().join(report)).expect("a report");
        assert!(roxmltree::Document::parse(&xml).is_ok(), "{xml}");
    }
}

#[test]
fn pre_commit_runs_the_hook() {
    let (hooks, project) = (directory(), project());
    fs::copy(workspace().join(HOOKS), hooks.path().join(HOOKS)).expect("a copy");
    for place in [hooks.path(), project.path()] {
        let script = "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm one";
        ran(Run::new("sh", place).args(["-c", script]));
    }
    let path =
        format!("{}:{}", mallow().parent().expect("a directory").display(), std::env::var("PATH").expect("a path"));
    let hook = || {
        Command::new(workspace().join("build/judges/venv/bin/pre-commit"))
            .args([
                "try-repo",
                hooks.path().to_str().expect("a path"),
                "mallow-test",
                "--all-files",
                "--hook-stage",
                "pre-push",
            ])
            .current_dir(project.path())
            .env("PATH", &path)
            .env("PRE_COMMIT_HOME", hooks.path().join("home"))
            .output()
            .expect("pre-commit")
    };
    let passed = hook();
    assert!(passed.status.success() && text(&passed).contains("Passed"), "{}", text(&passed));
    regress(&project);
    let failed = hook();
    assert!(failed.status.code() == Some(1) && text(&failed).contains("Failed"), "{}", text(&failed));
}
