# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # run declares what the parts share
# Finding a kernel that can run Soft-RoCE, and the modules to load from it.

# Modules in the order of loading (their dependencies come before them).
# rdma_rxe needs crc32_generic at run time without naming it as a dependency.
readonly MODULES_BASE=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
readonly MODULES_NETWORK=(veth virtio_net sch_netem)
readonly MODULES_RDMA=(rdma_rxe rdma_ucm)
readonly MODULES_OPTIONAL=(crc32_generic ib_umad)

# has_module DIR NAME: as a file or built into the kernel.
has_module() {
    grep -qsE "(^|/)${2//_/[-_]}\.ko" "$1/modules.dep" "$1/modules.builtin"
}

# module_files DIR NAME...: paths below DIR, dependencies first, each once.
module_files() {
    local dir=$1
    shift
    awk -F': *' -v names="$*" '
        function base(path) {
            sub(/.*\//, "", path); sub(/\.ko.*/, "", path); gsub(/-/, "_", path)
            return path
        }
        { file[base($1)] = $1; needs[base($1)] = $2 }
        END {
            count = split(names, wanted, " ")
            for (i = 1; i <= count; i++) {
                if (!(wanted[i] in file)) continue  # built in, or optional
                many = split(needs[wanted[i]], list, " ")
                for (j = many; j > 0; j--) if (!seen[list[j]]++) print list[j]
                if (!seen[file[wanted[i]]]++) print file[wanted[i]]
            }
        }' "$dir/modules.dep"
}

# usable_kernel IMAGE MODULES
usable_kernel() {
    local name
    [[ -r $1 && -r $2/modules.dep ]] || return 1
    for name in "${MODULES_BASE[@]}" "${MODULES_NETWORK[@]}" "${MODULES_RDMA[@]}"; do
        has_module "$2" "$name" || return 1
    done
}

# The folder of a kernel in the cache: this host's, or of arm64 with pages of some size.
cached_kernel() {
    case $1 in
    arm64-*) echo "$lab_cache/arm64/kernel-${1#arm64-}" ;;
    *) echo "$lab_cache/kernel" ;;
    esac
}

# find_kernel [boot|cache|arm64-4k|arm64-16k]: sets kernel_image and kernel_modules to the newest
# usable kernel of the host, or else of the cache.
find_kernel() {
    local where image root version
    for where in ${1:-boot cache}; do
        root=''
        [[ $where == boot ]] || root=$(cached_kernel "$where")
        while IFS= read -r image; do
            version=${image##*/vmlinuz-}
            if usable_kernel "$image" "$root/lib/modules/$version"; then
                kernel_image=$image
                kernel_modules=$root/lib/modules/$version
                return
            fi
        done < <(compgen -G "$root/boot/vmlinuz-*" | sort -rV)
    done
    return 1
}

# number_at OFFSET BYTES: a number of the kernel image's header.
number_at() {
    od -An -t "u$2" -j "$1" -N "$2" "$kernel_image" | tr -d ' '
}

# ready_kernel: sets boot_image. Under emulation a kernel needs seconds to unpack
# itself, so it is unpacked here and kept; if that can't be done, it boots as it is.
ready_kernel() {
    local unpacked sectors start length filter
    boot_image=$kernel_image
    # Debian's kernels for arm64 are not packed.
    [[ $accel != kvm && $arch == x86_64 ]] || return 0
    unpacked=$lab_cache/unpacked/${kernel_image##*/}-$(stat -Lc %Y-%s "$kernel_image")
    if [[ ! -s $unpacked ]]; then
        mkdir -p "${unpacked%/*}" || return 0
        # setup_sects, payload_offset and payload_length of the x86 boot protocol.
        sectors=$(number_at 497 1)
        start=$(((sectors + 1) * 512 + $(number_at 584 4)))
        length=$(number_at 588 4)
        case $(od -An -t x1 -j "$start" -N 4 "$kernel_image" | tr -d ' ') in
        # All but gzip have their unpacked size appended, in four bytes.
        fd377a58) filter=xz length=$((length - 4)) ;;
        28b52ffd) filter=zstd length=$((length - 4)) ;;
        1f8b*) filter=gzip ;;
        *) return 0 ;;
        esac
        # QEMU starts an ELF file by way of its PVH entry point.
        if head -c "$((start + length))" "$kernel_image" | tail -c "+$((start + 1))" |
            "$filter" -dcq >"$unpacked.$$" 2>/dev/null &&
            [[ $(head -c 4 "$unpacked.$$" | tail -c 3) == ELF ]]; then
            mv "$unpacked.$$" "$unpacked"
        else
            rm -f "$unpacked.$$"
            return 0
        fi
    fi
    boot_image=$unpacked
}
