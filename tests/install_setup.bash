# SPDX-License-Identifier: MIT
# Installs the library below ./root for tests that build programs with pkg-config alone.
# shellcheck shell=bash disable=SC2154 # folder_setup.bash sets $folder

! is_sanitized libwaymark.so ||
	skip "a library built for a sanitizer can't be linked by programs that are not"
DESTDIR=$folder/root meson install -C "$WAYMARK_BUILD" --no-rebuild --quiet >install.log 2>&1 ||
	{ cat install.log; exit 1; }
libdir=$folder/$(dirname "$(dirname "$(find root -name waymark.pc)")")
export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder/root LD_LIBRARY_PATH=$libdir
