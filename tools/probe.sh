#!/bin/sh
# tools/probe.sh FOLDER FLAG... builds gpuaas-gpu-probe for GOOS and GOARCH, with NVML if there is a C compiler for the target
# that has the C library's headers.
set -eu
into=$1
shift
go=${GO:-go}
arch=$($go env GOARCH)
cc=$($go env CC)
if [ "$($go env GOOS)-$arch" != "$($go env GOHOSTOS)-$($go env GOHOSTARCH)" ]; then
	gnu=x86_64
	[ "$arch" != arm64 ] || gnu=aarch64
	cc=$gnu-linux-gnu-gcc
	package=gcc-$(echo $gnu | tr _ -)-linux-gnu
	if ! echo '#include <dlfcn.h>' | $cc -E - >/dev/null 2>&1; then
		echo "note: gpuaas-gpu-probe for linux/$arch is built without NVML: $cc is missing, or the C library for it (Debian:" \
			"$package and libc6-dev-$arch-cross)"
		cc=
	fi
elif ! command -v "$cc" >/dev/null; then
	cc=
fi
export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g -Wno-deprecated-declarations}"
if [ -n "$cc" ]; then
	export CGO_ENABLED=1 CC="$cc"
else
	export CGO_ENABLED=0
fi
set -x
$go build "$@" -o "$into" ./cmd/gpuaas-gpu-probe
