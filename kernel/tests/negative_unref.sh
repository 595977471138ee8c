#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Shows that the held test two-frames finds the wrong order unref-any-frame
# within a minute. Breaks the kernel: alone in its boot.
exec /tests/negative unref-any-frame /tests/hold two-frames
