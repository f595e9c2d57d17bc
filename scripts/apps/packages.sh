# Debian packages, downloaded and unpacked into $root without being installed.

fail() {
    echo "prepare: $*" >&2
    exit 1
}

# need PROGRAM...: the programs that the content is made with.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || fail "$program is missing: install it, for instance by scripts/install-deps"
    done
}

# need_extension NAME...: what the PHP of this machine must have.
need_extension() {
    local extension loaded
    loaded=$(php -m | tr '[:upper:]' '[:lower:]')
    for extension in "$@"; do
        grep -qxF "$extension" <<<"$loaded" || fail "the PHP extension $extension is missing: apt-get install php-$extension"
    done
}

# unpack PACKAGE...: into $root. Absolute links that lead into $root are turned to lead there.
unpack() {
    need apt-get dpkg
    local package file link to
    for package in "$@"; do
        file=$(compgen -G "$dir/.debs/${package}_*.deb" | head -n 1) || true
        if [ -z "$file" ]; then
            (cd "$dir/.debs" && apt-get download "$package" >/dev/null 2>&1) \
                || fail "the package $package cannot be downloaded: is this Debian, and was apt-get update run?"
            file=$(compgen -G "$dir/.debs/${package}_*.deb" | head -n 1)
        fi
        dpkg -x "$file" "$root"
    done
    find "$root" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
        to=$(readlink "$link")
        if [ -e "$root$to" ] || [ -L "$root$to" ]; then ln -sfn "$root$to" "$link"; fi
    done
}

# take FROM TO: a copy in which no link is left; one that leads nowhere is left out.
take() {
    mkdir -p "$(dirname "$2")"
    find -L "$1" -type l -delete
    cp -aL "$1" "$2"
    chown -R "$(id -u):$(id -g)" "$2"
}
