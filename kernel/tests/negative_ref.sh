#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Shows that the held test not-mapped-any-more finds the wrong order ref-any-frame
# within a minute. Breaks the kernel: alone in its boot.
exec /tests/negative ref-any-frame /tests/hold not-mapped-any-more
