//! The harness's browser: that it sees what a page does, and what is wrong with it.

use harness::Browser;

const PAGE: &str = "data:text/html,<meta name=viewport content='width=device-width'><button onclick='clicked++'>b</button><input><p>shown</p><script>\
                    let clicked=0, moved=[]; onmousemove = e => moved.push([e.clientX, e.buttons]);</script>";

#[test]
fn a_browser_clicks_drags_and_types() {
    let mut browser = Browser::start((800, 600));
    browser.open(PAGE);
    browser.click("button");
    browser.wait_for("clicked === 1");
    browser.click("input");
    browser.type_text("ab");
    browser.press("Backspace");
    assert_eq!(browser.value("document.querySelector('input').value"), "a");
    browser.drag((10.0, 300.0), (60.0, 300.0));
    let moved = browser.value("moved").as_array().cloned().unwrap_or_default();
    assert!(moved.iter().any(|at| at[0] == 30 && at[1] == 1) && moved.iter().any(|at| at[0] == 60), "{moved:?}");
    assert_eq!((browser.text("p").as_deref(), browser.text("b")), (Some("shown"), None));
    browser.resize((375, 812));
    assert_eq!(browser.value("innerWidth"), 375);
    browser.prefer("dark");
    assert_eq!(browser.value("matchMedia('(prefers-color-scheme: dark)').matches"), true);
    let shot = tempfile::NamedTempFile::new().expect("a file");
    browser.screenshot(shot.path());
    assert!(std::fs::read(shot.path()).expect("a picture").starts_with(b"\x89PNG"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_browser_keeps_what_a_page_complains_of() {
    let mut browser = Browser::start((800, 600));
    let late = "setTimeout(() => { document.title = 'late'; nowhere() }, 0)";
    browser.open(&format!("data:text/html,<script>console.error('first'); {late}</script>"));
    // The next page would take this one's timer away.
    browser.wait_for("document.title === 'late'");
    browser.open(
        "data:text/html,<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\"><script>1</script>",
    );
    let complaints = browser.complaints().join("\n");
    for expected in ["first", "nowhere is not defined", "Content Security Policy"] {
        assert!(complaints.contains(expected), "{expected}: {complaints}");
    }
    assert_eq!(browser.requests().len(), 2);
}
