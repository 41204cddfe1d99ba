# Sourced by what makes a fresh Debian with mmdebstrap.
# shellcheck shell=bash
# shellcheck source=packaging/apt.sh
. "${BASH_SOURCE[0]%/*}/apt.sh"

# How mmdebstrap can make a root here; nothing if it cannot.
mode() {
    if ((EUID == 0)); then
        echo root
    elif command -v newuidmap >/dev/null && unshare --user true 2>/dev/null &&
        grep -q "^$(id -un):" /etc/subuid; then
        echo unshare
    fi
}

# The mirror that this system has its release from, a line for each component.
mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
        'Created-By: Packages' |
        awk -v release="$(codename)" '$1 == release && !seen[$0]++ { print "deb", $3, $1, $2 }'
}

# The ways to the mirror, such as a proxy, which are the system's; for mmdebstrap's --aptopt.
ways_to_the_mirror() {
    apt-config dump | grep '^Acquire::' | grep -v '^Acquire::\(IndexTargets\|Languages\)'
}

# gather FOLDER: the sources as they are here, in `sources`, and the crates of Cargo.lock, in `cargo`. `here` is the
# folder of this file.
gather() {
    local registry=${CARGO_HOME:-$HOME/.cargo}/registry part
    # shellcheck disable=SC2154
    mkdir -p "$1"/{sources,cargo/registry} || return 1
    (cd "$here/.." && git ls-files -z --cached --others --exclude-standard |
        tar --create --null --files-from - --ignore-failed-read) |
        tar --extract -C "$1/sources" || return 1
    (cd "$here/.." && cargo fetch --locked --quiet) || return 1
    for part in index cache; do
        cp -a "$registry/$part" "$1/cargo/registry/" || return 1
    done
}
