#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Shows that the held test mremap-pmd finds the wrong order table-moves
# within a minute. Breaks the kernel: alone in its boot.
exec /tests/negative table-moves /tests/hold mremap-pmd
