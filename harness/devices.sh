# shellcheck shell=bash
# What the host's own RDMA devices are; for demo and compare.

# Whether this host has an RDMA device that programs can open.
has_device() {
    compgen -G '/dev/infiniband/uverbs*' >/dev/null && compgen -G '/sys/class/infiniband/*' >/dev/null
}

# Name and IPv4 address of the first RDMA device that has one: "rxe0 192.0.2.1".
device_and_address() {
    local device netdev address
    for device in /sys/class/infiniband/*; do
        netdev=$(cat "$device/ports/1/gid_attrs/ndevs/0" 2>/dev/null) || continue
        address=$(ip -4 -brief address show dev "$netdev" | awk '{ sub("/.*", "", $3); print $3 }')
        [[ -n $address ]] && echo "${device##*/} $address" && return
    done
    return 1
}
