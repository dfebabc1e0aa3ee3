//! The status page in a browser, with scripts and without them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use doorbell_testkit::peers::wait_until;
use serde_json::Value;

use crate::admin::{KUBELET, ask, start};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto, program};

on_auto! {
    a_browser_shows_it
    it_is_readable_without_scripts
}

/// On a phone the page refreshes itself, fits the width of the screen, and runs no script from a
/// check's reason.
fn a_browser_shows_it(engine: &str) {
    let Some(chromium) = program("chromium") else { return };
    let (doorbell, admin) = start(engine);
    let mut browser = Browser::start(&chromium);
    browser.open();
    browser.go_to(&format!("http://{admin}/-/"));
    browser
        .wait_for("document.body.className === 'is-live' && document.title === 'Healthy \u{2013} doorbell'");
    // On a wide screen a sentence spans the whole row.
    browser.show_on(1200, 900, 1, false);
    let widths = "[...document.querySelectorAll('.none')].map(one => one.scrollHeight < 60).join()";
    assert_eq!(browser.eval(widths), "true");
    browser.show_on_a_phone();
    for _ in 0..3 {
        ask(doorbell.addr, KUBELET);
    }
    let note = "%3Cimg+src%3Dx+onerror%3Ddocument.title%3D1%3E%3Cscript%3Edocument.title%3D2%3C%2Fscript%3E+and+a+reason+that+is+long+enough+to+be+wider+than+any+phone_is_without_a_place_to_break_the_line_at_all";
    push(&doorbell, &format!("fail?note={note}"));
    // The page updates without user input.
    browser.wait_for("document.title === 'Down \u{2013} doorbell' && document.body.textContent.includes('<img src=x onerror=')");
    assert_eq!(browser.eval("document.querySelectorAll('img, #live script').length"), 0);
    assert_eq!(browser.eval("document.body.textContent.includes('kubelet')"), true);
    assert_eq!(browser.eval("[innerWidth, document.documentElement.scrollWidth].join()"), "390,390");
    assert_eq!(browser.eval("matchMedia('(prefers-color-scheme: dark)').matches"), false);
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(paper);
    let dark = serde_json::json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    browser.ask("Emulation.setEmulatedMedia", &dark);
    assert_ne!(browser.eval(paper), light);
    if let Some(kept) = std::env::var_os("DOORBELL_KEEP_PICTURE") {
        use base64::Engine as _;
        let picture =
            browser.ask("Page.captureScreenshot", &serde_json::json!({ "captureBeyondViewport": true }));
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(kept, bytes).unwrap();
    }
}

/// Without scripts the page is complete, fits the width of a phone, and refreshes itself.
fn it_is_readable_without_scripts(engine: &str) {
    let Some(chromium) = program("chromium") else { return };
    let (doorbell, admin) = start(engine);
    for _ in 0..3 {
        ask(doorbell.addr, KUBELET);
    }
    push(&doorbell, "fail?note=the+disk+is+full");
    let mut browser = Browser::start(&chromium);
    browser.open();
    browser.ask("Emulation.setScriptExecutionDisabled", &serde_json::json!({ "value": true }));
    browser.go_to(&format!("http://{admin}/-/"));
    // The debugger evaluates expressions although scripts are disabled.
    browser.wait_for("document.readyState === 'complete' && document.title === 'Down \u{2013} doorbell'");
    let shown = browser.eval("document.body.innerText");
    let shown = shown.as_str().unwrap().to_lowercase();
    for part in ["readyz", "livez", "app", "the disk is full", "kubelet", "probers"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(browser.eval("document.body.className"), "", "the script of the page must not run");
    assert_eq!(browser.eval("[innerWidth, document.documentElement.scrollWidth].join()"), "390,390");
    assert_ne!(
        browser.eval("getComputedStyle(document.body).backgroundColor"),
        "rgba(0, 0, 0, 0)",
        "the style sheet must apply"
    );
    push(&doorbell, "pass");
    browser.wait_for("document.title === 'Healthy \u{2013} doorbell'");
}

fn push(doorbell: &Doorbell, result: &str) {
    let push = format!(
        "POST /push/app/{result} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(ask(doorbell.addr, &push).status, 204);
}

/// A headless browser, controlled over two pipes with its debugging protocol.
struct Browser {
    child: Child,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    asked: u64,
    _scratch: Scratch,
}

impl Browser {
    fn start(chromium: &Path) -> Self {
        let scratch = Scratch::new();
        let profile = scratch.path("profile");
        let line = format!(
            "exec {} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe --user-data-dir={} 3<&0 4>&1",
            chromium.display(),
            profile.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, session: None, asked: 0, _scratch: scratch }
    }

    /// Opens a page at the size of a phone.
    fn open(&mut self) {
        let target = self.ask("Target.createTarget", &serde_json::json!({ "url": "about:blank" }));
        let attach = serde_json::json!({ "targetId": target["targetId"], "flatten": true });
        self.session = self.ask("Target.attachToTarget", &attach)["sessionId"].as_str().map(str::to_owned);
        self.show_on_a_phone();
    }

    fn show_on_a_phone(&mut self) {
        self.show_on(390, 844, 2, true);
    }

    fn show_on(&mut self, width: u32, height: u32, scale: u32, is_mobile: bool) {
        let screen = serde_json::json!({
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_mobile
        });
        self.ask("Emulation.setDeviceMetricsOverride", &screen);
    }

    fn go_to(&mut self, url: &str) {
        self.ask("Page.navigate", &serde_json::json!({ "url": url }));
    }

    fn eval(&mut self, expression: &str) -> Value {
        let asked = serde_json::json!({ "expression": expression, "returnByValue": true });
        // The evaluation fails during navigation, so a failure is not an error.
        self.try_ask("Runtime.evaluate", &asked)
            .map_or(Value::Null, |answer| answer["result"]["value"].clone())
    }

    fn wait_for(&mut self, expression: &str) {
        let mut seen = Value::Null;
        let is_so = wait_until(LIMIT, || {
            seen = self.eval(expression);
            seen == true
        });
        let page = "[document.title, document.body.className, document.body.textContent].join('\\n')";
        assert!(is_so.is_some(), "{expression}: {}", self.eval(page));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.asked += 1;
        let mut request = serde_json::json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(&[request.to_string().as_bytes(), b"\0"].concat()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert!(bytes.pop() == Some(0), "the browser exited");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.asked {
                let error = answer["error"].clone();
                return if error.is_null() { Ok(answer["result"].clone()) } else { Err(error) };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
