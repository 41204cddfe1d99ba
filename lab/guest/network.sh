#!/bin/sh
# Functions of host.sh: ports to the host, network, RDMA devices, and noticing
# that a server is ready.

# The device file of the virtio port with this name.
port() {
    for dir in /sys/class/virtio-ports/*; do
        if [ "$(cat "$dir/name" 2>/dev/null)" = "$1" ]; then
            echo "/dev/${dir##*/}"
            return
        fi
    done
}

# busybox has smaller tools of these names, and its shell prefers them.
of_the_host() {
    tool=$1
    shift
    for dir in /usr/sbin /usr/bin /sbin /bin; do
        if [ -x "$dir/$tool" ]; then
            "$dir/$tool" "$@"
            return
        fi
    done
    give_up "$tool not found"
}
ip() { of_the_host ip "$@"; }
tc() { of_the_host tc "$@"; }

# up INTERFACE MAC ADDRESS
up() {
    # Without duplicate address detection the link-local address, and with it
    # GID 0, is there at once.
    echo 0 >"/proc/sys/net/ipv6/conf/$1/accept_dad"
    ip link set dev "$1" address "$2" mtu 1500 up || give_up "cannot bring $1 up"
    ip addr add "$3/24" dev "$1" || give_up "cannot give $1 its address"
}

# A pair of virtual interfaces; the first end gets the address.
veth() {
    ip link add "$1" type veth peer name "$1-peer" || give_up "cannot create $1"
    echo 1 >"/proc/sys/net/ipv6/conf/$1-peer/disable_ipv6"
    ip link set dev "$1-peer" up
    up "$@"
}

set_up_network() {
    ip link set dev lo up
    case $LAB_NETWORK in
    loopback) ip addr add 10.9.0.1/32 dev lo ;;
    veth)
        veth veth0 02:00:00:00:00:01 10.9.0.1
        [ "$LAB_DEVICES" -lt 2 ] || veth veth1 02:00:00:00:00:11 10.9.1.1
        ;;
    link)
        interface=$(ls /sys/bus/virtio/drivers/virtio_net/virtio*/net)
        ip link set dev "$interface" name link0 || give_up "no link"
        up link0 "$LAB_MAC" "$LAB_ADDRESS"
        if [ "$LAB_LOSS" != 0 ]; then
            tc qdisc add dev link0 root netem loss "$LAB_LOSS%" || give_up "cannot set the packet loss"
        fi
        ;;
    esac
}

# rxe DEVICE INTERFACE: creates it and waits until its port and its GIDs are there.
rxe() {
    rdma link add "$1" type rxe netdev "$2" || give_up "cannot create $1"
    dir=/sys/class/infiniband/$1/ports/1
    tries=0
    until grep -q ACTIVE "$dir/state" && grep -q '[1-9a-f]' "$dir/gids/1" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || give_up "$1 does not become active"
        sleep 0.1
    done
}

set_up_rdma() {
    case $LAB_NETWORK in
    veth)
        [ "$LAB_DEVICES" -lt 1 ] || rxe rxe0 veth0
        [ "$LAB_DEVICES" -lt 2 ] || rxe rxe1 veth1
        ;;
    link) [ -n "$LAB_SOFT_HCA" ] || rxe rxe0 link0 ;;
    esac
}

# Multicast memberships of the interfaces before the server runs.
remember_memberships() {
    cat /proc/net/dev_mcast >/run/.lab/memberships
}

# The connection manager's identifiers.
connection_manager() {
    if [ -n "$LAB_SOFT_HCA" ]; then
        XDG_RUNTIME_DIR=/run/lab "$LAB_SOFT_HCA" ls
    else
        rdma resource show cm_id
    fi 2>/dev/null
}

# A server is ready when it listens (RDMA connection manager or TCP) or has
# joined a multicast group.
is_ready() {
    connection_manager | grep -q LISTEN ||
        awk 'FNR > 1 && $4 == "0A" { found = 1 } END { exit !found }' /proc/net/tcp /proc/net/tcp6 ||
        ! cmp -s /proc/net/dev_mcast /run/.lab/memberships
}

# watch_for_listener PID: tells the host once the server is ready. If it ends
# before that, its status will say so.
watch_for_listener() {
    until is_ready; do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    tell listening
}
