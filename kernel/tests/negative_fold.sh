#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Shows that the held test munmap finds the wrong order fold-after-clear
# within a minute. Breaks the kernel: alone in its boot.
exec /tests/negative fold-after-clear /tests/hold munmap
