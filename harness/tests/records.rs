//! Records of every example on soft-hca: their stable texts (`soft-hca show --stable`) are those in
//! `records`. With RECORDS=write they are written there instead. And the timelines of these records have beside the
//! calls what there is to read about their functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use harness::examples::{Example, sound};
use harness::private::{self, Network};

use crate::own_network;

/// The library that the texts were recorded with: another one may ask the device for other things.
const LIBRARY: &str = "librdmacm.so.1.3.44.0";

/// Examples that run at the same time, each in a network of its own: most wait for something.
const AT_ONCE: usize = 4;

/// Flags that make a run short.
fn flags(example: &str) -> &'static [&'static str] {
    match example {
        "device-list" | "rc-example" => &[],
        "read-write" => &["write"],
        "mckey" => &["-C", "3"],
        "apm" => &["-c", "2"],
        "pubsub-rdma-1" | "pubsub-rdma-2" | "mc" => &["-c", "2"],
        "srq" => &["-c", "3", "-l", "3"],
        // Of several, one adds before the other by chance.
        "many-clients" => &["-c", "3", "-n", "1"],
        _ => &["-c", "3"],
    }
}

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn done(output: Output) -> Vec<u8> {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
    output.stdout
}

/// Runs an example and gives the stable text of its record.
fn stable(example: &str, names: &Path, folder: &Path) -> String {
    let bin_dir = bin_dir();
    let soft_hca = bin_dir.join("soft-hca");
    let record = folder.join(format!("{example}.shr"));
    let paths = [&soft_hca, &record, Path::new(env!("CARGO_BIN_EXE_harness")), &bin_dir];
    let [program, file, harness, dir] = paths.map(|path| path.to_str().unwrap());
    let words = [program, "record", "-o", file, "--fabric", "records", "--", harness, "demo"];
    let words = words.into_iter().chain(["--bin-dir", dir, "--address", "127.0.0.1", example]);
    let words = words.chain(flags(example).iter().copied()).map(Into::into);
    let mut run = private::command(Network::WithInterface, names, words);
    done(run.stdin(Stdio::null()).output().unwrap());
    let mut show = Command::new(&soft_hca);
    let text = done(show.args(["show", "--stable"]).arg(&record).output().unwrap());
    without_chance(example, std::str::from_utf8(&text).unwrap())
}

/// Texts that the timeline of an example's record does not show beside the calls, but should.
fn missing_references(example: &str, folder: &Path) -> Option<String> {
    let path = |kind: &str| folder.join(format!("{example}.{kind}"));
    let [record, page, references] = ["shr", "html", "json"].map(path);
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    fs::write(&references, done(harness.arg("references").arg(&page).output().unwrap())).unwrap();
    let mut show = Command::new(bin_dir().join("soft-hca"));
    show.args(["show", "--html"]).arg(&page).arg("--references").args([&references, &record]);
    done(show.output().unwrap());
    let page = fs::read_to_string(&page).unwrap();
    let data = page.split_once("id=\"run\">").unwrap().1.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let texts = data["references"].as_object().unwrap();
    let says = |begin: &str| {
        let texts = texts.values().flat_map(|texts| texts.as_array().unwrap());
        texts.filter(|text| text["text"].as_str().unwrap().starts_with(begin)).count()
    };
    let is_original = Example::named(example).unwrap().original;
    let counts = [says("In C: "), says("Slides, ") + says("Course") + says("Manual")];
    let wanted = [if is_original { 1 } else { 0 }, 1];
    let is_there =
        counts[0] >= wanted[0] && counts[1] >= wanted[1] && (is_original || counts[0] == 0);
    (!is_there)
        .then(|| format!("{example}: {counts:?} of the C and of the pages are beside its calls\n"))
}

/// Lines that are the same in every run. The server of a blast acknowledges one message or several at a time,
/// by 8 bytes, and whether its last acknowledgement comes before its client has left is chance. The
/// server of `read-write` answers in the thread for completions, or in the other one if the
/// client's message came before `RDMA_CM_EVENT_ESTABLISHED`; what becomes of the answer is the
/// same.
fn without_chance(example: &str, text: &str) -> String {
    let mut is_left_out = false;
    let keeps = |line: &&str| {
        // Lines that belong to the one before are further to the right.
        if !line.starts_with("      ") {
            is_left_out = match example {
                "read-write" => line.trim_start().starts_with("ibv_post_send(qp=qp2,"),
                _ => example.starts_with("blast-sr-2") && line.contains(", 8 bytes"),
            };
        }
        !is_left_out
    };
    text.split_inclusive('\n').filter(keeps).collect()
}

/// The first line that is not as expected.
fn difference(example: &str, text: &str, expected: &str) -> Option<String> {
    if text == expected {
        return None;
    }
    let mut lines = text.lines();
    let mut wanted = expected.lines();
    let mut number = 0;
    loop {
        number += 1;
        let (line, wanted) = (lines.next(), wanted.next());
        if line != wanted {
            let [line, wanted] = [line, wanted].map(|line| line.unwrap_or("the end").trim());
            return Some(format!("{example}, line {number}: {line}\n  expected: {wanted}\n"));
        }
    }
}

/// Whether this machine has the library.
fn has_library() -> bool {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    folders.into_iter().any(|folder| folder.join(LIBRARY).exists())
}

#[test]
fn every_example_does_what_is_recorded() {
    if !own_network::is_possible() {
        return;
    }
    if !has_library() {
        needs::skipped(format_args!("there is no {LIBRARY}"));
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = own_network::names_file();
    for file in ["soft-hca", "libsoft_hca_preload.so", "srq"] {
        let path = bin_dir().join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let writes = std::env::var_os("RECORDS").is_some_and(|what| what == "write");
    let folder =
        Folder(std::env::temp_dir().join(format!("harness-records-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let queue = Mutex::new(sound().map(|example| example.name));
    let next = || queue.lock().unwrap().next();
    let differences = Mutex::new(String::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(example) = next() {
                    let text = stable(example, &names, &folder.0);
                    let file = source.join("records").join(format!("{example}.txt"));
                    if writes {
                        fs::write(&file, text).unwrap();
                        continue;
                    }
                    let expected = fs::read_to_string(&file).unwrap();
                    if let Some(missing) = missing_references(example, &folder.0) {
                        differences.lock().unwrap().push_str(&missing);
                    }
                    if let Some(difference) = difference(example, &text, &expected) {
                        println!("{example}:\n{text}");
                        differences.lock().unwrap().push_str(&difference);
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "\n{differences}");
}
