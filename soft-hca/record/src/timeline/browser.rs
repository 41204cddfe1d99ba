//! Pages in a real browser: nothing overlaps in its fonts, the keyboard leads everywhere, nothing is
//! fetched and nothing complains. Skipped where Chromium is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use serde_json::json;

use super::{References, Sources, html};
use crate::entry::What;
use crate::place::{Place, Site};
use crate::testing::{CLIENT, Run, ping_pong};
use crate::{Entry, Header};

/// Notes all that goes wrong before anything else runs.
const NOTES: &str = "<script>window.testErrors = [];\
    addEventListener('error', (event) => testErrors.push('error: ' + event.message), true);\
    addEventListener('securitypolicyviolation', (event) => testErrors.push('wanted: ' + event.blockedURI));\
    for (const name of ['error', 'warn']) console[name] = (...what) => testErrors.push(name + ': ' + what.join(' '));\
    window.alert = () => testErrors.push('a command line was run');</script>";

/// The references for [`placed`].
const READ: &str = r##"[{"file":"timeline/browser.rs","function":"placed","texts":[
    {"text":"In C: placed in <browser>.c"},{"text":"Slides, p. 7: Sends.","link":"../docs/a page.html#seven"}]}]"##;

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.exists())
}

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let path = env::temp_dir().join(format!("soft-hca-timeline-{}-{now}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The result of the test's script on a page in a window of this size.
fn outcome(program: &Path, folder: &Path, page: &str, size: &str) -> String {
    let script = format!("<script>{}</script></body>", include_str!("browser.js"));
    let page = page.replacen("<head>", &format!("<head>{NOTES}"), 1);
    let end = page.rfind("</body>").unwrap();
    let page = page[..end].to_owned() + &script + &page[end + "</body>".len()..];
    let file = folder.join("page.html");
    fs::write(&file, page).unwrap();
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--window-size={size}"))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        // Its caches and settings as well.
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    match dom.rsplit_once("<pre id=\"outcome\">") {
        Some((_, outcome)) => outcome.split("</pre>").next().unwrap_or("").to_owned(),
        None => format!("no outcome: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn three() -> (Header, Vec<Entry>) {
    let mut run = Run::connected(&["/usr/bin/a-server-with-a-long-name", "--and", "an argument"]);
    let began = json!({ "pid": 9, "role": "program", "command": ["somebody else"] });
    run.put(5, 2, "process_began", began);
    run.ping_pong(2).ends()
}

/// A failure, and names that are markup.
fn evil() -> (Header, Vec<Entry>) {
    let evil = "</script><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(2)>";
    let mut run = Run::connected(&[evil, "'\"&\u{2028}"]);
    run.call(CLIENT, evil, json!([[evil, evil]]), json!([[evil, evil]]));
    let reason = json!({ "check": "flushed" });
    run.ping_pong(1)
        .posts(CLIENT, "IBV_WR_RDMA_WRITE")
        .fails(CLIENT, "IBV_WR_RDMA_WRITE", "IBV_WC_REM_ACCESS_ERR", reason)
        .ends()
}

/// Has sends posted in this function.
fn placed(entries: &mut [Entry]) {
    let place = Arc::new(Place {
        call: Some("ibv_post_send".into()),
        function: Some("browser::placed".into()),
        file: Some("src/timeline/browser.rs".into()),
        line: Some(line!()), // called here
        ..Place::default()
    });
    for (entry, call) in entries.iter_mut().zip(0..) {
        if let What::SendPosted(_) = entry.what {
            entry.site = Some(Site { call, number: 1, place: Some(Arc::clone(&place)) });
        }
    }
}

#[test]
fn a_browser_shows_every_page() {
    let Some(program) = browser() else {
        needs::missing("chromium is not installed (package chromium)");
        return;
    };
    // A browser that has just ended may still have a process in its folder, to which another one would leave the page.
    let mut folders = Vec::new();
    for (name, (header, mut entries)) in
        [("folded", ping_pong(60)), ("three", three()), ("evil", evil())]
    {
        placed(&mut entries);
        let sources = Sources::read(&header, &entries).with(References::parse(READ).unwrap());
        let page = html(&header, &entries, &sources);
        for size in ["1500,1000", "390,844"] {
            let folder = Folder::new();
            let outcome = outcome(&program, &folder.0, &page, size);
            folders.push(folder);
            assert_eq!(outcome, "all is well", "{name}, {size}");
        }
    }
}
