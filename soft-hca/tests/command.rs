//! The command as its users see it, with programs that know nothing of RDMA.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A folder for fabrics of one test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("soft-hca-test-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soft-hca"));
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("SOFT_HCA_PRELOAD", c_library())
            .env_remove("SOFT_HCA_FABRIC")
            .env_remove("LD_PRELOAD");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a shell script in the default fabric.
    fn script(&self, script: &str) -> String {
        let output = self.output(&["run", "--", "sh", "-c", script]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fabric(&self, name: &str) -> PathBuf {
        self.0.join("soft-hca").join(name)
    }

    /// Waits until the last fabric has cleared up behind itself.
    fn wait_until_empty(&self) {
        wait_for(|| !self.0.join("soft-hca").exists());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A library that is there anyway, in place of ours: what it would do is not the matter here.
fn c_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/libc.so.6")).unwrap();
    line[line.find('/').unwrap()..].into()
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < limit, "that takes too long");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Processes of a fabric's daemon, those apart that have ended.
fn daemons(dir: &Path) -> Vec<u32> {
    let dir = dir.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        words.get(1..3) == Some(&[b"fabric", dir.as_bytes()])
    })
    .collect()
}

#[test]
fn the_status_is_the_programs() {
    let place = Place::new();
    let status = |script| place.output(&["run", "--", "sh", "-c", script]).status;
    assert_eq!(status("exit 7").code(), Some(7));
    assert!(status("exit 0").success());
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status("kill -9 $$").signal(), Some(9));
    place.wait_until_empty();
}

#[test]
fn errors_are_one_line() {
    let place = Place::new();
    let stderr = |arguments: &[&str], status: i32| {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = stderr(&["run", "--", "/no/such/program"], 127);
    assert!(text.starts_with("soft-hca: cannot run /no/such/program: "), "{text}");
    assert_eq!(text.lines().count(), 1);
    stderr(&["run"], 2);
    stderr(&["run", "--fabric", "../x", "--", "true"], 2);
    stderr(&["run", "--name", "mlx5_0", "--", "true"], 2);
    place.wait_until_empty();

    for arguments in [&["run", "true"][..], &["ls"]] {
        let output = place.command(arguments).env("XDG_RUNTIME_DIR", "run").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let expected = "soft-hca: XDG_RUNTIME_DIR is run: set it to a path that begins with /\n";
        assert_eq!((output.status.code(), text.as_str()), (Some(1), expected));
    }

    let output =
        place.command(&["run", "true"]).env("SOFT_HCA_PRELOAD", "/no/lib.so").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("soft-hca: /no/lib.so is not there"), "{text}");
}

#[test]
fn an_option_that_there_is_not() {
    let place = Place::new();
    for command in ["run", "record", "check", "doctor"] {
        for end in [&["--", "true"][..], &["true"], &["true", "--fabric"]] {
            let output = place.output(&[&[command, "--fabrik=x"], end].concat());
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{command}: {text}");
            let said = "unexpected argument '--fabrik' found";
            let tip = "a similar argument exists: '--fabric'";
            assert!(text.contains(said) && text.contains(tip), "{command}: {text}");
        }
    }
    let output = place.output(&["run", "--explian", "--", "true"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("a similar argument exists: '--explain'"), "{text}");
    // The program's options are its own, as is its name.
    assert_eq!(place.script("echo --explian -x"), "--explian -x\n");
    let output = place.output(&["run", "sh", "-c", "echo $0 $1", "--fabrik", "--"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "--fabrik --\n");
    assert_eq!(place.output(&["run", "--", "--fabrik"]).status.code(), Some(127));
    place.wait_until_empty();
}

#[test]
fn what_cannot_be_run_has_a_status_of_its_own() {
    let place = Place::new();
    let [folder, plain] = ["folder", "plain"].map(|name| place.0.join(name));
    fs::create_dir(&folder).unwrap();
    fs::write(&plain, "").unwrap();
    let [folder, plain] = [&folder, &plain].map(|file| file.to_str().unwrap());
    let file = place.0.join("run.shr");
    let file = file.to_str().unwrap();
    for command in
        [&["run"][..], &["run", "--explain"], &["record", "-o", file], &["check"], &["doctor"]]
    {
        let status = |program| {
            let output = place.output(&[command, &["--", program]].concat());
            let text = String::from_utf8(output.stderr).unwrap();
            let line = format!("soft-hca: cannot run {program}: ");
            assert!(text.lines().any(|said| said.starts_with(&line)), "{command:?}: {text}");
            output.status.code()
        };
        assert_eq!(status("/no/such/program"), Some(127), "{command:?}");
        assert_eq!(status("no such program"), Some(127), "{command:?}");
        assert_eq!(status(folder), Some(126), "{command:?}");
        assert_eq!(status(plain), Some(126), "{command:?}");
    }
    place.wait_until_empty();
}

/// Warnings about programs that are linked statically, or whose loader does not trust the preloaded library.
#[test]
fn a_program_that_stays_outside_is_told_of() {
    let place = Place::new();
    let said = |program: &Path| {
        let program = program.to_str().unwrap();
        let file = place.0.join("run.shr");
        let file = file.to_str().unwrap();
        let commands = [&["run"][..], &["run", "--explain"], &["record", "-o", file], &["check"]];
        let texts = commands.map(|command| {
            let output = place.output(&[command, &["--", program]].concat());
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stderr).unwrap();
            let begin = "soft-hca: nothing can be preloaded into ";
            let lines = text.lines().filter_map(|line| line.strip_prefix(begin));
            lines.collect::<Vec<_>>().join("\n")
        });
        assert!(texts.iter().all(|text| text == &texts[0]), "{texts:?}");
        texts[0].clone()
    };
    let [source, program, script, copy] =
        ["static.c", "static", "script", "copy"].map(|name| place.0.join(name));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compiled = Command::new("cc").arg("-static").arg("-o").args([&program, &source]).status();
    if compiled.is_ok_and(|status| status.success()) {
        let end = format!(
            "{}, which stays outside: it is linked statically; link it dynamically",
            program.display()
        );
        assert_eq!(said(&program), end);
        fs::write(&script, format!("#! {}\n", program.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(said(&script), end);
    } else {
        programs::missing("nothing can be linked statically (packages gcc and libc6-dev)");
    }
    fs::copy("/bin/true", &copy).unwrap();
    assert_eq!(said(&copy), "");
    // A setuid program of another user, which root can make, gives its rights to the user that runs it.
    if std::os::unix::fs::chown(&copy, Some(65534), None).is_ok() {
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
        let end = format!(
            "{}, which stays outside: it is setuid, so that the loader preloads nothing; run a copy of \
             it, without",
            copy.display()
        );
        assert_eq!(said(&copy), end);
    } else {
        programs::skipped("only root can make another user's program setuid");
    }
    place.wait_until_empty();
}

#[test]
fn what_a_program_finds() {
    let place = Place::new();
    let text = place
        .script("echo $SYSFS_PATH; echo $LD_PRELOAD; echo $SOFT_HCA_DIR; echo $SOFT_HCA_FABRIC");
    let lines: Vec<&str> = text.lines().collect();
    let dir = place.fabric("default");
    let expected = [dir.join("sys-rxe0"), c_library(), dir, "default".into()];
    assert_eq!(lines, expected.map(|path| path.to_str().unwrap().to_string()));
    // A program's own files get the numbers that they always do.
    assert_eq!(place.script("exec 3>&-; ls /proc/self/fd | sort -n | head -3"), "0\n1\n2\n");
    // It has no children that it has not made: they would keep a shell waiting.
    assert_eq!(place.script("cat /proc/$$/task/$$/children").split_whitespace().count(), 1);
    // Programs in a fabric stay in it.
    let text =
        format!("{} run --name rxe1 -- sh -c 'echo $SYSFS_PATH'", env!("CARGO_BIN_EXE_soft-hca"));
    let output = place.output(&["run", "--fabric", "f", "--", "sh", "-c", &text]);
    let inner = place.fabric("f").join("sys-rxe1");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), inner.to_str().unwrap());
    place.wait_until_empty();
}

#[test]
fn a_fabric_lives_as_long_as_its_last_program() {
    let place = Place::new();
    let mut first = place.command(&["run", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let tree = place.fabric("default").join("sys-rxe0/class/infiniband/rxe0");
    let socket = place.fabric("default").join("socket");
    wait_for(|| tree.exists() && socket.exists());
    let made = fs::metadata(&tree).unwrap();
    // Not while the first one may be starting it.
    place.script("true");
    let found = fs::metadata(&tree).unwrap();
    assert_eq!((made.ino(), made.mtime_nsec()), (found.ino(), found.mtime_nsec()));
    let mode = fs::metadata(place.fabric("default")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(daemons(&place.fabric("default")).len(), 1);
    let listing = String::from_utf8(place.output(&["ls"]).stdout).unwrap();
    // Other fabrics of this user are listed, too.
    let line = format!("fabric default dir {}\n", place.fabric("default").display());
    assert!(listing.contains(&line), "{listing}");
    first.kill().unwrap();
    first.wait().unwrap();
    place.wait_until_empty();
    wait_for(|| daemons(&place.fabric("default")).is_empty());
    let listing = String::from_utf8(place.output(&["ls"]).stdout).unwrap();
    assert!(!listing.is_empty() && !listing.contains(&line), "{listing}");
}

#[test]
fn a_killed_daemon_is_replaced() {
    let place = Place::new();
    let dir = place.fabric("default");
    let mut first = place.command(&["run", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(|| dir.join("socket").exists() && daemons(&dir).len() == 1);
    place.script("true");
    let pid = daemons(&dir)[0].to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    wait_for(|| daemons(&dir).is_empty());
    assert!(dir.join("socket").exists());
    place.script("true");
    place.wait_until_empty();
    first.kill().unwrap();
    first.wait().unwrap();
}

/// Starts and ends overlap in every way, and some starts are killed midway.
#[test]
fn many_at_once() {
    let place = Place::new();
    let place = &place;
    thread::scope(|scope| {
        for seed in 0..8u64 {
            scope.spawn(move || {
                let mut random = seed * 0x9e37_79b9 + 1;
                for _ in 0..25 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let arguments = ["run", "--fabric", "busy", "--", "true"];
                    let mut child =
                        place.command(&arguments).stderr(Stdio::inherit()).spawn().unwrap();
                    let is_victim = random >> 33 & 3 == 0;
                    if is_victim {
                        thread::sleep(Duration::from_micros(random >> 40 & 0x1fff));
                        child.kill().unwrap();
                    }
                    let status = child.wait().unwrap();
                    assert!(status.success() || is_victim, "{status}");
                }
            });
        }
    });
    // A start that was killed before it had a daemon leaves a folder, which the next one removes.
    assert!(place.output(&["ls"]).status.success());
    place.wait_until_empty();
    wait_for(|| daemons(&place.fabric("busy")).is_empty());
}

#[test]
fn help_teaches() {
    let place = Place::new();
    let text = String::from_utf8(place.output(&["--help"]).stdout).unwrap();
    for word in ["run", "ls", "doctor", "soft-hca run -- ibv_devinfo", "SOFT_HCA_LOG", "GID"] {
        assert!(text.contains(word), "{word}");
    }
    assert!(!text.contains("doctor-peer"));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn faults_are_explained_and_checked() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let output = place.output(&[&["run"], arguments, &["--", "true"]].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (status, help) = run(&["--fault", "help"]);
    assert_eq!(status, Some(0), "{help}");
    assert!(help.starts_with("A fault is WHAT") && help.contains("--fault drop:1%"), "{help}");
    let (status, said) = run(&["--roce", "--fault", "drop:1"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("--fault \"drop:1\": drop cannot take \"1\""), "{said}");
    let (status, said) = run(&["--fault", "drop:1%"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("it needs --roce"), "{said}");
    let mut command = place.command(&["run", "--roce", "--", "true"]);
    let output = command.env("SOFT_HCA_FAULT", "dorp").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("\"dorp\" is no fault") && said.contains("--fault help"), "{said}");
}
