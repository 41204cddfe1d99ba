//! soft-hca in folders whose names `LD_PRELOAD` cannot have: spaces and colons separate there.
//!
//! See `stock.rs` about programs that are not installed; the package is ibverbs-utils.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use programs::place::{Place, built};
use programs::{LIMIT, LOCALHOST, comes_about, installed, tcp};

/// Everything that a path may have and somebody may stumble over.
const NAME: &str = "it's a \"place\": $LIB";

/// Copies the command and the library into a folder of that name; gives both.
fn install(place: &Place) -> [PathBuf; 2] {
    let dir = place.file(NAME);
    fs::create_dir(&dir).unwrap();
    ["soft-hca", "libsoft_hca_preload.so"].map(|name| {
        fs::copy(built(name), dir.join(name)).unwrap();
        dir.join(name)
    })
}

/// The output of a command that has to end well.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_copy_in_an_odd_folder_works() {
    if !installed(&["ibv_devinfo", "ibv_rc_pingpong"]) {
        return;
    }
    let mut place = Place::new("odd-folder");
    let [command, library] = install(&place);
    place.use_command(command);
    // Also for children of children, and in a fabric within one.
    let text = place.start("sh -c ibv_devinfo&&true").succeed();
    assert!(text.contains("rxe0"), "{text}");
    let nested = "exec \"$0\" run --fabric inner -- sh -c 'ibv_devinfo -l && echo $LD_PRELOAD'";
    let mut run = place.command(&["run", "--", "sh", "-c", nested]);
    let text = succeed(run.arg(place.soft_hca()));
    let inner = place.file("soft-hca/inner/preload-0.so");
    assert!(text.contains("rxe0") && text.ends_with(&format!("\n{}\n", inner.display())), "{text}");
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    place.start(&format!("{line} {LOCALHOST}")).succeed();
    server.succeed();
    let text = succeed(&mut place.command(&["doctor"]));
    assert!(text.contains(&format!("preloaded library: {}\n", library.display())), "{text}");
    assert!(text.contains("`ibv_devinfo -d rxe0` shows the device"), "{text}");
    place.assert_gone();
}

#[test]
fn a_library_in_an_odd_folder_works() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("odd-library");
    let [_, library] = install(&place);
    let run = |library: &Path| {
        let mut command = place.command(&["run", "--", "ibv_devinfo", "-l"]);
        succeed(command.env("SOFT_HCA_PRELOAD", library))
    };
    assert!(run(&library).contains("rxe0"));
    // A name relative to the current folder, which is the place.
    assert!(run(&Path::new(NAME).join("libsoft_hca_preload.so")).contains("rxe0"));
    place.assert_gone();
}

/// Programs of a fabric whose daemon was killed still start others, and two libraries are two links.
#[test]
fn the_link_lives_as_long_as_the_fabric() {
    let mut place = Place::new("odd-link");
    let [command, library] = install(&place);
    place.use_command(command);
    let mut keeper = place.keep();
    let link = place.fabric().join("preload-0.so");
    assert_eq!(fs::read_link(&link).unwrap(), library);
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    assert!(Command::new("kill").args(["-9", &daemon.to_string()]).status().unwrap().success());
    assert!(comes_about(LIMIT, || place.daemons().is_empty()));
    let second = place.keep();
    assert_eq!(fs::read_link(&link).unwrap(), library);
    let other = place.file("other place.so");
    symlink(&library, &other).unwrap();
    let line = "printenv LD_PRELOAD";
    let text = place.start_in(line, |command| command.env("SOFT_HCA_PRELOAD", &other)).succeed();
    assert_eq!(text, format!("{}\n", place.fabric().join("preload-1.so").display()));
    keeper.kill();
    place.end(second);
}

#[test]
fn two_odd_folders_are_told_what_to_set() {
    let mut place = Place::new("odd-runtime");
    let [command, _] = install(&place);
    let odd = place.file("run: time");
    fs::create_dir(&odd).unwrap();
    // The library's own folder will do.
    succeed(place.command(&["run", "--", "true"]).env("XDG_RUNTIME_DIR", &odd));
    assert!(comes_about(LIMIT, || !odd.join("soft-hca/default").exists()));
    place.use_command(command);
    for arguments in [&["run", "--", "true"][..], &["doctor"]] {
        let output = place.command(arguments).env("XDG_RUNTIME_DIR", &odd).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let part = "both have a space, a colon or a dollar sign in their paths";
        assert!(text.contains(part) && text.contains("set XDG_RUNTIME_DIR to"), "{text}");
    }
    place.assert_gone();
}

#[test]
fn fabrics_come_and_go_while_they_are_listed() {
    let place = Place::new("listed");
    let base = place.file("soft-hca");
    std::thread::scope(|scope| {
        let come_and_go = scope.spawn(|| {
            for _ in 0..20_000 {
                fs::DirBuilder::new().mode(0o700).create(&base).unwrap();
                fs::remove_dir(&base).unwrap();
            }
        });
        while !come_and_go.is_finished() {
            assert_eq!(place.listing(), format!("fabric {} does not run\n", place.fabric_name()));
        }
    });
}
