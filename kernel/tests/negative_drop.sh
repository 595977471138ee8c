#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Shows that the held test munmap finds the wrong order unmap-drops-count
# within a minute. Breaks the kernel: alone in its boot.
exec /tests/negative unmap-drops-count /tests/hold munmap
