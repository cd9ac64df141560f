#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the guest's initramfs: initramfs.py MODULES INIT FILE. MODULES is the folder of a kernel's
modules (lib/modules/VERSION/kernel), INIT the static program that init.c becomes. It holds what it takes
to see the host's files over virtio, and nothing else."""

import pathlib
import sys

# Each after those that it builds on; a kernel may have some of them built in.
MODULES = """drivers/virtio/virtio drivers/virtio/virtio_ring drivers/virtio/virtio_pci_legacy_dev
    drivers/virtio/virtio_pci_modern_dev drivers/virtio/virtio_pci net/9p/9pnet net/9p/9pnet_virtio
    fs/netfs/netfs fs/fscache/fscache fs/9p/9p""".split()


class Archive:
    """cpio's "newc" format: a head of 13 fields in hexadecimal, name and data padded to 4 bytes."""

    def __init__(self):
        self.data, self.inode = b"", 0

    def add(self, name, mode, data=b""):
        self.inode += 1
        ended = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(ended), 0)
        head = "070701" + "".join(f"{field:08x}" for field in fields)
        for part in head.encode() + ended, data:
            self.data += part + b"\0" * (-len(part) % 4)


def main():
    folder, init, out = map(pathlib.Path, sys.argv[1:])
    archive, names = Archive(), []
    archive.add("dev", 0o40755)
    archive.add("modules", 0o40755)
    archive.add("init", 0o100755, init.read_bytes())
    for module in MODULES:
        path = folder / f"{module}.ko"
        if path.exists():
            names.append(f"/modules/{path.name}")
            archive.add(names[-1][1:], 0o100644, path.read_bytes())
    archive.add("modules/list", 0o100644, "".join(f"{name}\n" for name in names).encode())
    archive.add("TRAILER!!!", 0)
    out.write_bytes(archive.data)


main()
