# Sourced by what makes a fresh Debian with mmdebstrap.
# shellcheck shell=bash

# How mmdebstrap can make a root here; nothing if it cannot.
mode() {
    if ((EUID == 0)); then
        echo root
    elif command -v newuidmap >/dev/null && unshare --user true 2>/dev/null &&
        grep -q "^$(id -un):" /etc/subuid; then
        echo unshare
    fi
}

codename() {
    # shellcheck disable=SC1091
    (. /etc/os-release && echo "${VERSION_CODENAME:-}")
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
