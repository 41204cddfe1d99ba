//! A network of its own: the address of the recordings, no way out, and names from
//! the hosts file only. So a connection that must be refused is refused, whatever the
//! host's network does, and no port is taken by somebody else.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// The network besides the loopback interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing: it has the address itself. For cases that need no device.
    Loopback,
    /// An interface like the one of the recorded device, and an empty runtime folder.
    WithInterface,
    /// The same, and at the other end of the interface another host, which joins a soft-hca
    /// fabric: [`ON_CLIENT`] runs programs there. The command has to be `env VARIABLE soft-hca ...`.
    TwoHosts,
}

/// The address of the recorded device.
pub const ADDRESS: &str = "10.9.0.1";
/// Of two hosts, the other one's.
pub(crate) const CLIENT_ADDRESS: &str = "10.9.0.2";
/// Becomes its arguments, a command line, on the other one of two hosts.
pub const ON_CLIENT: &str = "/dev/shm/on-client";

/// Commands run inside, as root of a user namespace, before the program: `$1` is the
/// file that names the sources of names.
const LOOPBACK: &str = "set -e
    ip link set lo up
    ip address add 10.9.0.1/24 dev lo
    mount --bind \"$1\" /etc/nsswitch.conf
    shift
    exec \"$@\"";

/// The same with an Ethernet interface. The GIDs of a device come from its addresses;
/// its other end has none. The folder for what is of one run only is laid over the one
/// for shared memory, which every machine has.
const WITH_INTERFACE: &str = "set -e
    ip link set lo up
    rdma0='rdma0 address 02:00:00:00:00:01 mtu 1500'
    if ip link add $rdma0 type veth peer name rdma1; then
        ip link set rdma1 addrgenmode none
        ip link set rdma1 up
    else
        ip link add $rdma0 type dummy
    fi
    ip link set rdma0 up
    ip address add 10.9.0.1/24 dev rdma0
    if [ -w /proc/sys/net/ipv4/tcp_max_tw_buckets ]; then
        echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets
    fi
    mount -t tmpfs -o mode=0700 tmpfs /dev/shm
    export XDG_RUNTIME_DIR=/dev/shm
    mount --bind \"$1\" /etc/nsswitch.conf
    shift
    exec \"$@\"";

/// The same with a second host. It ends when this shell does, or what takes its place.
const TWO_HOSTS: &str = r#"set -e
    ip link set lo up
    mount -t tmpfs -o mode=0700 tmpfs /dev/shm
    mkdir /dev/shm/server /dev/shm/client
    mount --bind "$1" /etc/nsswitch.conf
    shift
    cat >/dev/shm/host <<'END'
        read -r _
        export XDG_RUNTIME_DIR=/dev/shm/client
        exec "$1" run --fabric client --roce=10.9.0.2 -- sh -c 'echo ready; exec sleep infinity'
END
    # Its path may have signs in it that the shell of a script would take for its own.
    ln -s "$3" /dev/shm/soft-hca
    mkfifo /dev/shm/to /dev/shm/from
    setpriv --pdeathsig KILL unshare --net sh /dev/shm/host "$3" </dev/shm/to >/dev/shm/from &
    host=$!
    exec 8>/dev/shm/to 9</dev/shm/from
    while [ /proc/$host/ns/net -ef /proc/self/ns/net ]; do sleep 0.01; done
    ip link add rdma0 address 02:00:00:00:00:01 mtu 1500 type veth \
        peer name rdma0 address 02:00:00:00:00:02 mtu 1500 netns $host
    ip address add 10.9.0.1/24 dev rdma0
    ip address add fe80::ff:fe00:1/64 nodad dev rdma0 || :
    ip link set rdma0 up
    nsenter --net=/proc/$host/ns/net sh -e -c '
        ip link set lo up
        ip address add 10.9.0.2/24 dev rdma0
        ip address add fe80::ff:fe00:2/64 nodad dev rdma0 || :
        ip link set rdma0 up'
    for net in /proc/self/ns/net /proc/$host/ns/net; do
        nsenter --net=$net sh -c '
            [ ! -w /proc/sys/net/ipv4/tcp_max_tw_buckets ] ||
                echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets'
    done
    cat >/dev/shm/on-client <<END
#!/bin/sh
unset LD_PRELOAD SYSFS_PATH SOFT_HCA_DIR SOFT_HCA_FABRIC SOFT_HCA_DEVICE
export XDG_RUNTIME_DIR=/dev/shm/client
exec nsenter --net=/proc/$host/ns/net /dev/shm/soft-hca run --fabric client -- "\$@"
END
    chmod +x /dev/shm/on-client
    echo >&8
    read -r _ <&9
    exec 8>&- 9<&-
    export XDG_RUNTIME_DIR=/dev/shm/server
    exec "$@""#;

/// May this user have one here? Containers often forbid it.
pub fn is_possible(network: Network, names: &Path) -> bool {
    refusal(network, names).is_none()
}

/// Why this user cannot have one.
fn refusal(network: Network, names: &Path) -> Option<String> {
    // With two hosts there would have to be a soft-hca.
    let network = if network == Network::TwoHosts { Network::WithInterface } else { network };
    let tried = command(network, names, ["true".into()]).stdin(Stdio::null()).output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Becomes this program inside. Returns only if that fails.
pub fn enter(network: Network, names: &Path, program: impl IntoIterator<Item = OsString>) -> Error {
    if let Some(why) = refusal(network, names) {
        return Error::Usage(format!(
            "this host does not allow a private network (unshare --map-root-user --net --mount): {why}"
        ));
    }
    start_error(command(network, names, program).exec())
}

/// This program inside, to be started; `names` is the file that says where names come from.
pub fn command(
    network: Network,
    names: &Path,
    program: impl IntoIterator<Item = OsString>,
) -> Command {
    let set_up = match network {
        Network::Loopback => LOOPBACK,
        Network::WithInterface => WITH_INTERFACE,
        Network::TwoHosts => TWO_HOSTS,
    };
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--net", "--mount", "sh", "-c", set_up, "sh"])
        .arg(names)
        .args(program);
    command
}

fn start_error(source: io::Error) -> Error {
    Error::Start { program: "unshare".to_owned(), source }
}
