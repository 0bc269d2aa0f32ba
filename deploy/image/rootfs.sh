#!/bin/sh
# The image's root file system: Python and its libraries from Debian's packages, kohort and its extras from a wheel.
# Runs as root on Debian 13: rootfs.sh TARGET WHEEL. There is no shell in it, and no package manager.
set -eu
target=$1
wheel=$2
extras=${3:-fast,security,console}

packages="base-files ca-certificates libc6 libgcc-s1 libstdc++6 zlib1g libbz2-1.0 liblzma5 libffi8 libexpat1 libssl3t64
libuuid1 libzstd1 netbase python3.13-minimal libpython3.13-minimal libpython3.13-stdlib"

export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet
apt-get install --yes --quiet --no-install-recommends binutils ca-certificates python3 python3-pip

work=$(mktemp --directory)
chmod 755 "$work"
cd "$work"
# shellcheck disable=SC2086
apt-get download --quiet $packages
mkdir --parents "$target/var/lib/dpkg/status.d"
for package in *.deb; do
    dpkg-deb --extract "$package" "$target"
    dpkg-deb --field "$package" > "$target/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"  # for scanners
done
cd /
rm --recursive --force "$work"

# What no program of the image reads.
cd "$target"
rm --recursive --force usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian usr/share/bug \
    usr/share/applications usr/share/pixmaps usr/share/ca-certificates usr/sbin usr/lib/*/gconv \
    usr/lib/python3.13/pydoc_data usr/lib/python3.13/ensurepip usr/lib/python3.13/_pyrepl
install -D --mode=644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
ln --symbolic python3.13 usr/bin/python3

python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --no-cache-dir \
    --target opt/kohort "$wheel[$extras]"
rm --recursive --force opt/kohort/bin opt/kohort/zstandard/_cffi.*  # it has the same as backend_c
find opt/kohort/uvloop opt/kohort/zstandard -name '*.so' -exec strip --strip-unneeded {} +  # of debug symbols
find opt/kohort -name '*.pyi' -delete -o -name '*.pyx' -delete -o -name '*.h' -delete
# The root is read-only: what is not compiled now is compiled at every start.
python3 -m compileall -q --invalidation-mode unchecked-hash opt/kohort usr/lib/python3.13 \
    -x '/(spark|pyspark_kohort|idlelib|lib2to3|turtledemo)/' || true

printf 'root:x:0:0:root:/:/nonexistent\nkohort:x:65532:65532:kohort:/tmp:/nonexistent\n' > etc/passwd
printf 'root:x:0:\nkohort:x:65532:\n' > etc/group
printf 'hosts: files dns\n' > etc/nsswitch.conf
install --directory --owner=65532 --group=65532 --mode=750 data
install --directory --mode=1777 tmp
