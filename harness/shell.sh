# shellcheck shell=bash
# shellcheck disable=SC2154 # the script that reads this has die
# What demo, compare, learn and two_hosts share: signals that end a script, words for other shells, and the
# folder to build in.

attends=no attended='' heard=no ended_by=0

# heed_signals: a signal that ends the script ends what is attended, and then the script in its usual way.
heed_signals() {
    trap 'end_by 130' INT
    trap 'end_by 143' TERM
    trap 'end_by 129' HUP
}

# Before what has to be done to its end, such as a trap of EXIT.
ignore_signals() {
    trap '' INT TERM HUP
}

# end_by STATUS: for the traps of signals.
end_by() {
    [[ $attends == yes ]] || exit "$1"
    heard=yes ended_by=$1
    [[ -z $attended ]] || kill "$attended" 2>/dev/null || true
}

# attend COMMAND...: runs it and gives its status, or that of the signal that has ended it. Of a command in the
# foreground a shell would hear no signal before its end.
attend() {
    local status
    attends=yes attended=''
    "$@" &
    attended=$!
    # One that has come since then has found nobody to end.
    ((ended_by == 0)) || kill "$attended" 2>/dev/null || true
    while :; do
        status=0 heard=no
        wait "$attended" || status=$?
        # A signal ends the wait, and the command may go on. If it has ended at the same time bash may have lost
        # that, and would wait for ever.
        [[ $heard == yes ]] || break
        kill -0 "$attended" 2>/dev/null || break
    done
    attends=no
    ((ended_by == 0)) || status=$ended_by
    return "$status"
}

# quoted WORD: as a shell would read it.
quoted() {
    printf "'%s'" "${1//\'/\'\\\'\'}"
}

# Ends the script if nothing can be built.
need_target() {
    local target=${CARGO_TARGET_DIR:-target}
    mkdir -p "$target" 2>/dev/null && [[ -w $target ]] ||
        die "cannot write to $(readlink -m "$target"), where the programs are built; CARGO_TARGET_DIR can name" \
            "another folder"
}
