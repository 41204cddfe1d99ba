#!/bin/sh
# PID 1 after init: makes the machine a host with its network and RDMA devices,
# runs the command, reports its exit status and stops the machine.
#
# /run/.lab/config (written by lab/lib/initramfs.sh) sets LAB_*.

export PATH=/run/.lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /run/.lab || exit 1
# shellcheck source=/dev/null
. ./config
# shellcheck source=network.sh
. ./network.sh
# Kept for the whole run: a port can be opened only once at a time.
exec 3>"$(port events)" 4<"$(port go)"

tell() { echo "$LAB_NAME $*" >&3; }

# A write to a port returns before the host has read it, so only the host can say
# when nothing is lost by stopping.
stop_machine() {
    read -r _ <&4
    sync
    echo b >/proc/sysrq-trigger
    while :; do sleep 60; done
}

# An error of the lab itself, not of the command.
give_up() {
    tell "failed $*"
    stop_machine
}

mount_file_systems() {
    mkdir -p /dev/pts /dev/shm
    mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
    mount -t tmpfs -o mode=1777 shm /dev/shm
    ln -s /proc/self/fd /dev/fd
    ln -s fd/0 /dev/stdin
    ln -s fd/1 /dev/stdout
    ln -s fd/2 /dev/stderr
    mkdir -p /run/lock /run/.lab/etc/upper /run/.lab/etc/work
    mkdir -m 1777 /run/lab
    # /etc needs files of its own for names; the host's stay below.
    mount -t overlay -o lowerdir=/etc,upperdir=/run/.lab/etc/upper,workdir=/run/.lab/etc/work \
        overlay /etc || give_up "cannot overlay /etc"
    share=0
    while read -r options dir; do
        mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$options" "share$share" "$dir" ||
            give_up "cannot mount $dir"
        share=$((share + 1))
    done <./shares
}

set_names() {
    hostname "lab-$LAB_NAME"
    echo 'hosts: files' >/run/.lab/nsswitch
    grep -v '^hosts:' /etc/nsswitch.conf 2>/dev/null >>/run/.lab/nsswitch
    cp /run/.lab/nsswitch /etc/nsswitch.conf
    rm -f /etc/resolv.conf
    printf '%s\n' '127.0.0.1 localhost' '::1 localhost ip6-localhost' \
        '10.9.0.1 lab-server' '10.9.0.2 lab-client' >/etc/hosts
}

set_limits() {
    # No module is loaded behind our back: what is loaded is part of the set-up.
    echo >/proc/sys/kernel/modprobe
    echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets
    echo core >/proc/sys/kernel/core_pattern
    # shellcheck disable=SC3045 # busybox's shell has them
    ulimit -c 0
    # shellcheck disable=SC3045
    ulimit -l unlimited
}

# Ends whatever the command left behind, so that its pipes get their end of file:
# every process but the relays, which belong to this shell's session 0.
kill_others() {
    # shellcheck disable=SC2013 # numbers only
    # In stat, the session is the fourth field after the name in parentheses.
    for pid in $(sed -n 's/^\([0-9]*\) .*) . [0-9]* [0-9]* [1-9].*/\1/p' /proc/[0-9]*/stat 2>/dev/null); do
        kill -9 "$pid" 2>/dev/null
    done
}

# relay STREAM: one of the command's streams to the host, with a marker as its end.
relay() {
    {
        cat "$1"
        printf %s "$LAB_MARKER"
    } >"$(port "$1")" 3>&- 4<&-
}

# The command writes to pipes, as under a shell. (A port itself can be opened only
# once, so /dev/stdout would not work on it.)
run_command() {
    mkfifo out err
    relay out &
    out_pid=$!
    relay err &
    err_pid=$!
    setsid env -i /bin/sh ./command </dev/null >out 2>err 3>&- 4<&- &
    command_pid=$!
    if [ "$LAB_WATCH" = yes ]; then
        watch_for_listener "$command_pid"
    fi
    wait "$command_pid"
    status=$?
    kill_others
    wait "$out_pid" "$err_pid"
}

mount_file_systems
set_names
set_limits
set_up_network
set_up_rdma
if [ "$LAB_WATCH" = yes ]; then
    remember_memberships
fi
if [ "$LAB_WAIT_FOR_GO" = yes ]; then
    tell waiting
    read -r _ <&4
fi
tell running
run_command
tell "status $status"
# With two hosts this waits for both sides: the other may still need answers from
# here, such as acknowledgements, retransmissions or the end of a connection.
stop_machine
