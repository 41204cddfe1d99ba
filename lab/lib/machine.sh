# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# Starting virtual machines and following them.
#
# Every machine has virtio ports: out and err carry the command's streams,
# events carries lines "NAME WORD..." from the guest, go lines to it. All machines of a
# run share one events pipe; its end of file means that all QEMUs have ended.

declare -A machine_pids=() orders=()
relay_pids=()

# A run that was killed could not clean up; its directory goes now.
make_work_directory() {
    local old
    for old in "${TMPDIR:-/tmp}"/lab.??????; do
        if [[ -O $old && -s $old/pid ]] && ! kill -0 "$(<"$old/pid")" 2>/dev/null; then
            rm -rf "$old"
        fi
    done
    work=$(mktemp -d "${TMPDIR:-/tmp}/lab.XXXXXX") || die "cannot create a temporary directory"
    [[ $work != *[,[:space:]]* ]] || die "no comma or space in the temporary directory's name, please: $work"
    echo $$ >"$work/pid"
}

# Sets accel. /dev/kvm may exist and still not run a guest.
probe_accel() {
    accel=tcg,thread=multi
    [[ ${LAB_KVM:-} != no && $arch == x86_64 ]] || return 0
    [[ -r /dev/kvm && -w /dev/kvm ]] || return 0
    runs_firmware && boots_kernel || return 0
    accel=kvm
}

# Whether KVM runs a firmware of five bytes: "out 0xf4, 0x10" makes QEMU end with status 33.
runs_firmware() {
    local rom=$work/probe status=0
    {
        head -c 65520 /dev/zero
        printf '\xb0\x10\xe6\xf4\xf4'
        head -c 11 /dev/zero
    } >"$rom"
    # In a subshell, which keeps quiet and leaves no core file if QEMU aborts.
    (
        ulimit -c 0
        timeout 10 qemu-system-x86_64 -accel kvm -machine q35 -cpu max -m 16 -bios "$rom" \
            -nodefaults -display none -device isa-debug-exit,iobase=0xf4,iosize=1 -no-reboot
        exit
    ) </dev/null >/dev/null 2>&1 || status=$?
    ((status == 33))
}

# Whether KVM boots the kernel, which without a root gives up and restarts: that ends QEMU. On
# some hosts, themselves virtual, it hangs. Tried once, until the host is started anew.
boots_kernel() {
    local boot verdicts=$lab_cache/kvm tried outcome
    boot=$(</proc/sys/kernel/random/boot_id)
    read -r tried outcome 2>/dev/null <"$verdicts" || true
    if [[ ${tried:-} != "$boot" ]]; then
        outcome=hangs
        if timeout -k 5 15 qemu-system-x86_64 -machine q35 -accel kvm -cpu max -m 256 \
            -nodefaults -no-user-config -display none -no-reboot \
            -kernel "$kernel_image" -append "quiet panic=-1" </dev/null >/dev/null 2>&1; then
            outcome=boots
        fi
        # Without a place for it, the next run tries again.
        { mkdir -p "$lab_cache" && echo "$boot $outcome" >"$verdicts"; } 2>/dev/null || true
    fi
    [[ $outcome == boots ]]
}

# open_events: pipe that the machines write to; closed on our side by follow.
open_events() {
    mkfifo "$work/events"
    # Opening both ends at first, so that neither open waits.
    # shellcheck disable=SC2094
    exec {both}<>"$work/events" {events}<"$work/events" {events_writer}>"$work/events"
    exec {both}>&-
}

# start_relay NAME [LABEL]
start_relay() {
    mkfifo "$work/$1.out" "$work/$1.err"
    "$lab_dir/lib/relay" "$marker" "$work/events" "$1" "$work/$1.out" "$work/$1.err" "${@:2}" \
        {events}<&- {events_writer}>&- &
    relay_pids+=("$!")
}

# tell NAME WORD: a line to the guest.
tell() {
    echo "$2" >&"${orders[$1]}"
}

# Sets machine, console and root: how QEMU is called, and the folder that is the machine's root.
choose_machine() {
    if [[ $arch == arm64 ]]; then
        # Its pointer authentication as it is specified takes most of the time.
        machine=(qemu-system-aarch64 -machine "virt,gic-version=3" -cpu "max,pauth-impdef=on")
        console=ttyAMA0 root=$arm64_root
    else
        machine=(qemu-system-x86_64 -machine q35 -cpu max)
        console=ttyS0 root=/
    fi
}

# start_machine NAME LABEL QEMU_ARGUMENT...; needs the prepared $work/NAME.initrd.
#
# norandmaps: an emulated processor keeps the code that it has translated by its address. Where
# that is another one each time, a program takes more than twice as long to start.
start_machine() {
    local name=$1 port ports=() out err descriptor machine console root
    choose_machine
    start_relay "$name" ${2:+"$2"}
    shift 2
    mkfifo "$work/$name.go.in" "$work/$name.go.out"
    exec {descriptor}<>"$work/$name.go.in"
    orders["$name"]=$descriptor
    for port in out err; do
        ports+=(-chardev "file,id=$port,path=$work/$name.$port"
            -device "virtserialport,chardev=$port,name=$port")
    done
    # Held by QEMU from the first moment: should it fail to start, the readers
    # still get their end of file.
    exec {out}>"$work/$name.out" {err}>"$work/$name.err"
    # The kernel kills QEMU when this shell dies, even by SIGKILL.
    setpriv --pdeathsig KILL -- "${machine[@]}" \
        -name "lab-$name" -accel "$accel" \
        -smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$boot_image" -initrd "$work/$name.initrd" \
        -append "console=$console quiet loglevel=4 panic=-1 mitigations=off norandmaps" \
        -serial "file:$work/$name.console" \
        -fsdev local,id=host,path=$root,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -device virtio-serial-pci "${ports[@]}" \
        -chardev "file,id=events,path=$work/events" \
        -device virtserialport,chardev=events,name=events \
        -chardev "pipe,id=go,path=$work/$name.go" -device virtserialport,chardev=go,name=go \
        "$@" </dev/null >"$work/$name.qemu" 2>&1 &
    machine_pids["$name"]=$!
    # Without this, bash would report its being killed.
    disown
    exec {out}>&- {err}>&-
}

# follow HANDLER [ALIVE]: calls HANDLER NAME WORD... for each event until all
# machines have ended. Status 1 when the time limit comes first, 2 when ALIVE,
# called now and then, says that there is nothing to wait for.
follow() {
    local handler=$1 alive=${2:-true} line begun='' outcome
    exec {events_writer}>&-
    while ((SECONDS < deadline)); do
        outcome=0
        IFS= read -r -t 1 -u "$events" line || outcome=$?
        # At a timeout, read leaves what there is of a line.
        line=$begun$line begun=''
        if ((outcome == 0)); then
            [[ $line != *' gone' ]] || exit "$STATUS_OUTPUT_CLOSED"
            # shellcheck disable=SC2086
            "$handler" $line
        elif ((outcome <= 128)); then
            return 0
        else
            begun=$line
            "$alive" || return 2
        fi
    done
    return 1
}

# time_is_up [MORE]
time_is_up() {
    echo "lab: time limit of $time_limit s reached, the virtual machines were stopped${1:+; $1}" >&2
    exit "$STATUS_TIME_LIMIT"
}

stop_machines() {
    local pid tries
    for pid in "${machine_pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null
    done
    # What has reached the pipes is still shown, unless nobody reads it.
    for tries in {1..50}; do
        kill -0 "${relay_pids[@]}" 2>/dev/null || break
        sleep 0.1
    done
    ((${#relay_pids[@]} == 0)) || kill "${relay_pids[@]}" 2>/dev/null
}

# explain NAME: the end of what QEMU and the kernel said, for a machine that failed.
explain() {
    local file
    for file in "$work/$1.qemu" "$work/$1.console"; do
        [[ ! -s $file ]] || tail -n 15 "$file" | tr -d '\r' | sed 's/^/lab: | /' >&2
    done
}

# finish: for the EXIT trap.
finish() {
    stop_machines
    [[ -z ${work:-} ]] || rm -rf "$work"
}
