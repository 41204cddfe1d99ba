# shellcheck shell=bash
# shellcheck disable=SC2154 # the script that reads this has them
# The comparison in two of the lab's machines: it runs in the client's, and has the servers run
# in the other one over ssh. Only the two machines see each other, so that root needs no password.

# What the server's machine does until the client's has it end. The shell and the home are plain
# ones, so that nothing of this host's user is read at every command.
readonly SSH_SERVER='
rm -f /etc/shadow && echo "root::1::::::" >/etc/shadow || exit
sed -i "s|^root:.*|root:x:0:0:root:/run/lab:/bin/sh|" /etc/passwd || exit
PATH=$PATH:/usr/sbin
dropbearkey -t ed25519 -f /run/lab/key >/run/lab/log 2>&1 || { cat /run/lab/log >&2; exit 1; }
dropbear -F -B -m -r /run/lab/key -P /run/lab/dropbear.pid
test -e /run/lab/over'

# One connection for all: it takes an emulated processor some time to make one.
readonly SSH_CLIENT='ssh -F none -o BatchMode=yes -o ControlPath=/run/lab/to-server
    -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'

# Uses run, options and arguments, as compare has set them; does not come back.
run_in_two_machines() {
    local ssh=${SSH_CLIENT//$'\n'/ } comparison
    run+=(--server-host 10.9.0.1 --client-address 10.9.0.2 --ssh "$ssh"
        --fabric-name "two virtual machines of the lab, each with a real kernel's Soft-RoCE")
    printf -v comparison '%q ' "${run[@]}" "${arguments[@]}"
    exec lab/run "${options[@]}" --no-labels --two-hosts --server "$SSH_SERVER" --client "
        $ssh -M -N -f root@10.9.0.1 || exit 2
        $comparison
        status=\$?
        $ssh root@10.9.0.1 '>/run/lab/over; kill \$(cat /run/lab/dropbear.pid)'
        exit \$status"
}
