# Sourced by what takes packages of another Debian release, or for another architecture, without installing them.
# shellcheck shell=bash

# The codename of this system's release; nothing if it does not say.
codename() {
    [[ -r /etc/os-release ]] || return 0
    # shellcheck disable=SC1091
    (. /etc/os-release && echo "${VERSION_CODENAME:-}")
}

# private_apt DIR RELEASE [ARCHITECTURE]: an apt of its own below DIR, which knows nothing but the release's packages.
# Use it with APT_CONFIG=DIR/apt.conf. What is missing here is said on standard output, with status 1.
private_apt() {
    local dir=$1 release=$2 architecture=${3:-} mirror system key keyring=''
    system=$(codename)
    # shellcheck disable=SC2016  # apt's own
    mirror=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' \
        'Created-By: Packages' | awk -v release="$system" '$1 == release { print $2; exit }')
    [[ -n $mirror ]] || {
        echo "apt's list of sources has no mirror of Debian $system"
        return 1
    }
    for key in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        [[ ! -r $key ]] || keyring=$key
    done
    [[ -n $keyring ]] || {
        echo "there are no keys of Debian's: install debian-archive-keyring"
        return 1
    }

    mkdir -p "$dir"/{none,state/lists/partial,cache/archives/partial} || return
    : >"$dir/status"
    echo "deb [${architecture:+arch=$architecture }signed-by=$keyring target=Packages] $mirror $release main" \
        >"$dir/sources.list"
    # Ways to the mirror, such as a proxy, are the system's; all else is not to be touched.
    {
        apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' || true
        cat <<END
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$dir/none";
Dir::Etc::sourceparts "$dir/none";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$dir/none";
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Dir::Cache::archives "$dir/cache/archives";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
END
        [[ -z $architecture ]] || printf 'APT::Architecture "%s";\nAPT::Architectures { "%s"; };\n' \
            "$architecture" "$architecture"
    } >"$dir/apt.conf"
}
