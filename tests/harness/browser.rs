//! A real browser without a window: Chromium, by the DevTools protocol over a pipe.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{overdue, tool};

/// After so long a browser that does not answer, or a condition that does not come true, has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A running Chromium. It ends with this, and by itself when its pipe is closed.
struct Chromium {
    child: Child,
    commands: PipeWriter,
    answers: Receiver<Value>,
    started: Instant,
    /// Settings and caches; removed at last.
    _settings: TempDir,
}

/// Numbers of calls, which Chromium takes below 2³¹: none twice, as it may still answer the last one of another page.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// More than one page ever makes.
const CALLS: u64 = 1 << 18;

/// A browser that is older starts no page: [`overdue`] ends it by its age, whoever uses it then.
const AGE: Duration = overdue::LIMIT.checked_div(3).expect("no zero");

/// Those that no test uses: to start one takes longer than most pages.
static IDLE: Mutex<Vec<Chromium>> = Mutex::new(Vec::new());

/// One that may start a page; ends those that may not.
fn young(idle: &mut Vec<Chromium>) -> Option<Chromium> {
    idle.retain(|chromium| chromium.started.elapsed() < AGE);
    idle.pop()
}

/// Ends those that are left when the process of the tests ends: nothing drops a static variable.
extern "C" fn end_idle() {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// A browser with one page, and settings that no other one had.
pub struct Browser {
    /// None: it is being dropped.
    chromium: Option<Chromium>,
    /// What the page has asked for, and what went wrong in it.
    requests: Vec<String>,
    complaints: Vec<String>,
    last: u64,
    context: Value,
    session: Option<String>,
}

/// Keys that are no characters: name, code.
const KEYS: [(&str, u32); 10] = [
    ("Enter", 13),
    ("Tab", 9),
    ("Escape", 27),
    ("ArrowLeft", 37),
    ("ArrowUp", 38),
    ("ArrowRight", 39),
    ("ArrowDown", 40),
    ("Home", 36),
    ("End", 35),
    ("Backspace", 8),
];

/// A copy of a descriptor that is above those that the browser expects.
fn high(fd: RawFd) -> OwnedFd {
    // SAFETY: a copy of an open descriptor, which nobody else owns.
    unsafe {
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 10);
        assert!(copy >= 0, "a descriptor");
        OwnedFd::from_raw_fd(copy)
    }
}

impl Chromium {
    fn start() -> Self {
        let settings = tempfile::tempdir().expect("a directory");
        let (commands_read, commands) = std::io::pipe().expect("a pipe");
        let (answers_read, answers_write) = std::io::pipe().expect("a pipe");
        let (commands_read, answers_write) = (high(commands_read.as_raw_fd()), high(answers_write.as_raw_fd()));
        let (read, write) = (commands_read.as_raw_fd(), answers_write.as_raw_fd());
        let mut command = Command::new(tool("chromium"));
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--disable-extensions", "--disable-sync", "--force-device-scale-factor=1", "--lang=en"]);
        command.arg(format!("--user-data-dir={}", settings.path().display())).arg("about:blank");
        command.env("HOME", settings.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // SAFETY: the child gives two open descriptors the numbers that the browser expects.
        unsafe {
            command.pre_exec(move || {
                let given = libc::dup2(read, 3) >= 0 && libc::dup2(write, 4) >= 0;
                given.then_some(()).ok_or_else(std::io::Error::last_os_error)
            });
        }
        let child = command.spawn().expect("chromium starts");
        drop((commands_read, answers_write));
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let mut input = BufReader::new(File::from(OwnedFd::from(answers_read)));
            let mut message = Vec::new();
            while input.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message).expect("a message of the browser is JSON");
                if send.send(parsed).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Self { child, commands, answers, started: Instant::now(), _settings: settings }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // SAFETY: its process group is its own, and it is not waited for yet.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

impl Browser {
    /// An empty page of this size.
    pub fn start(size: (u32, u32)) -> Self {
        let idle = young(&mut IDLE.lock().unwrap_or_else(PoisonError::into_inner));
        let mut browser = Self {
            chromium: Some(idle.unwrap_or_else(Chromium::start)),
            requests: Vec::new(),
            complaints: Vec::new(),
            last: NEXT.fetch_add(CALLS, Ordering::Relaxed),
            context: Value::Null,
            session: None,
        };
        browser.attach();
        browser.resize(size);
        browser
    }

    fn attach(&mut self) {
        self.context = self.call("Target.createBrowserContext", json!({}))["browserContextId"].clone();
        let page = json!({"url": "about:blank", "browserContextId": self.context});
        let created = self.call("Target.createTarget", page);
        let attached = self.call("Target.attachToTarget", json!({"targetId": created["targetId"], "flatten": true}));
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Calls a method of the DevTools protocol, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        let chromium = self.chromium.as_mut().expect("it is there until it is dropped");
        chromium.commands.write_all(&bytes).expect("the browser reads");
        loop {
            let answer = self.chromium.as_ref().expect("the same").answers.recv_timeout(LIMIT);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: the browser does not answer: {error}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.notice(answer);
        }
    }

    /// Keeps what an event says of the page.
    fn notice(&mut self, event: Value) {
        // The end of another one's page.
        if event["sessionId"].as_str() != self.session.as_deref() {
            return;
        }
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.complaints.push(format!("exception: {}", parameters["exceptionDetails"])),
            "Runtime.consoleAPICalled"
                if matches!(parameters["type"].as_str(), Some("error" | "warning" | "assert")) =>
            {
                self.complaints.push(format!("console: {}", parameters["args"]));
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.complaints.push(format!("log: {} {}", parameters["entry"]["text"], parameters["entry"]["url"]));
            }
            "Page.javascriptDialogOpening" => {
                self.complaints.push(format!("dialog: {}", parameters["message"]));
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
    }

    /// Shows a page, and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        let shown = self.call("Page.navigate", json!({"url": url}));
        assert!(shown["errorText"].is_null(), "{url}: {}", shown["errorText"]);
        self.wait_for("document.readyState === 'complete'");
    }

    /// The value of an expression in the page; of a promise, what it resolves to.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Text of the first element that a selector names; None where there is none.
    pub fn text(&mut self, selector: &str) -> Option<String> {
        let text = self.value(&format!("document.querySelector({})?.innerText", json!(selector)));
        text.as_str().map(str::to_owned)
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, condition: &str) {
        let end = Instant::now() + LIMIT;
        // While a page is replaced by another one there is nothing to ask.
        let parameters = json!({"expression": format!("!!({condition})"), "returnByValue": true});
        while self.call("Runtime.evaluate", parameters.clone())["result"]["value"] != true {
            let page = |browser: &mut Self| browser.value("document.body?.innerText ?? ''");
            if Instant::now() > end {
                let (page, complaints) = (page(self), self.complaints.join("\n"));
                panic!("{condition}: not in {LIMIT:?}\n{complaints}\nthe page has:\n{page}");
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// The size of the window, in pixels.
    pub fn resize(&mut self, (width, height): (u32, u32)) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Light or dark, as the system would say.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// The middle of the first element that a selector names, after scrolling there.
    pub fn middle(&mut self, selector: &str) -> (f64, f64) {
        let [left, top, width, height] = self.bounds(selector);
        (left + width / 2.0, top + height / 2.0)
    }

    /// Left, top, width and height of the first element that a selector names, after scrolling there, once it stays
    /// where it is and nothing lies above its middle.
    pub fn bounds(&mut self, selector: &str) -> [f64; 4] {
        let quoted = json!(selector);
        let settled = format!(
            "(async () => {{
                const frame = () => new Promise(done => requestAnimationFrame(done));
                const e = document.querySelector({quoted});
                if (!e) return null;
                e.scrollIntoView({{block: 'nearest', behavior: 'instant'}});
                const place = () => {{ const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }};
                const before = place();
                await frame();
                await frame();
                const after = place();
                const above = document.elementFromPoint(after[0] + after[2] / 2, after[1] + after[3] / 2);
                const is_settled = e.isConnected && before.join() === after.join() && above && (e.contains(above) || above.contains(e));
                return is_settled ? after : null;
            }})()"
        );
        let end = Instant::now() + LIMIT;
        loop {
            let bounds = self.value(&settled);
            if !bounds.is_null() {
                return [0, 1, 2, 3].map(|at| bounds[at].as_f64().unwrap_or_else(|| panic!("{selector}: {bounds}")));
            }
            assert!(Instant::now() < end, "{selector}: not there to be clicked in {LIMIT:?}");
        }
    }

    /// Clicks the first element that a selector names.
    pub fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.click_at(at);
    }

    /// Clicks at a point of the window.
    pub fn click_at(&mut self, at: (f64, f64)) {
        self.drag(at, at);
    }

    /// Moves the mouse there.
    pub fn hover(&mut self, at: (f64, f64)) {
        self.mouse("mouseMoved", at, 0);
    }

    /// Presses the mouse at one point, moves it to the other in some steps, and releases it there.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mouseMoved", from, 0);
        self.mouse("mousePressed", from, 1);
        if from != to {
            for step in 1..=5 {
                let part = f64::from(step) / 5.0;
                let at = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
                self.mouse("mouseMoved", at, 1);
            }
        }
        self.mouse("mouseReleased", to, 1);
    }

    fn mouse(&mut self, what: &str, at: (f64, f64), buttons: u32) {
        let button = if buttons == 0 { "none" } else { "left" };
        let count = u32::from(what != "mouseMoved");
        let parameters =
            json!({"type": what, "x": at.0, "y": at.1, "button": button, "buttons": buttons, "clickCount": count});
        self.call("Input.dispatchMouseEvent", parameters);
    }

    /// Types text into what has the focus.
    pub fn type_text(&mut self, text: &str) {
        for character in text.chars() {
            let key = character.to_string();
            self.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "text": key, "key": key}));
            self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
        }
    }

    /// Presses a key by its name, as `Enter`; with `Shift+` before it if wanted.
    pub fn press(&mut self, name: &str) {
        let (modifiers, name) = name.strip_prefix("Shift+").map_or((0, name), |name| (8, name));
        let code = KEYS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no key {name}")).1;
        for what in ["rawKeyDown", "keyUp"] {
            let parameters =
                json!({"type": what, "key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers});
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    /// Writes what is shown to a file, as PNG.
    pub fn screenshot(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().expect("a picture"));
        std::fs::write(path, bytes.expect("base64")).expect("a file");
    }

    /// What the page complained about: exceptions, errors on the console, dialogs, what the Content-Security-Policy
    /// forbade.
    pub fn complaints(&mut self) -> Vec<String> {
        // An answer comes after the events before it.
        self.value("0");
        self.complaints.clone()
    }

    /// All addresses that the page has asked for.
    pub fn requests(&mut self) -> Vec<String> {
        self.value("0");
        self.requests.clone()
    }
}

impl Drop for Browser {
    /// Leaves its Chromium to the next one, without the page. One of a test that failed ends: it may be why.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.session = None;
        self.call("Target.disposeBrowserContext", json!({"browserContextId": self.context}));
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        static AT_EXIT: Once = Once::new();
        // SAFETY: a function of this program, which stays.
        AT_EXIT.call_once(|| assert_eq!(unsafe { libc::atexit(end_idle) }, 0));
        idle.extend(self.chromium.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_would_be_overdue_is_ended_and_not_used_again() {
        let (mut old, new) = (Chromium::start(), Chromium::start());
        old.started -= AGE;
        let (id_of_old, id_of_new) = (old.child.id(), new.child.id());
        let mut idle = vec![new, old];
        assert_eq!(young(&mut idle).map(|chromium| chromium.child.id()), Some(id_of_new));
        assert!(idle.is_empty() && !Path::new(&format!("/proc/{id_of_old}")).exists());
    }
}
