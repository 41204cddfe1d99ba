//! A network of its own for cases that need no device: the loopback interface
//! with the address of the recordings, no way out, and names from the hosts file
//! only. So a connection that must be refused is refused, whatever the host's
//! network does, and no port is taken by somebody else.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// What is done inside, as root of a user namespace, before the program: `$1` is
/// the file that names the sources of names.
const SET_UP: &str = "ip link set lo up && ip address add 10.9.0.1/24 dev lo && \
                      mount --bind \"$1\" /etc/nsswitch.conf && shift && exec \"$@\"";

/// May this user have one here? Containers often forbid it.
pub fn is_possible(names: &Path) -> bool {
    let status = command(names, ["true".into()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Runs this program again inside, with these arguments. Returns only if that
/// fails.
pub fn enter(names: &Path, arguments: impl IntoIterator<Item = OsString>) -> Error {
    if !is_possible(names) {
        return Error::Usage(
            "this host does not allow a private network (unshare --map-root-user --net --mount)"
                .to_owned(),
        );
    }
    let own = match std::env::current_exe() {
        Ok(own) => own.into_os_string(),
        Err(source) => return start_error(source),
    };
    start_error(command(names, [own].into_iter().chain(arguments)).exec())
}

fn command(names: &Path, program: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--net", "--mount", "sh", "-c", SET_UP, "sh"])
        .arg(names)
        .args(program);
    command
}

fn start_error(source: io::Error) -> Error {
    Error::Start { program: "unshare".to_owned(), source }
}
