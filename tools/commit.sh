#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Prints which commit this tree is of, also where there is no git to ask. In a copy of the tree a
# file .commit may say it.
cd "$(dirname "$0")/.." || exit 1
cat .commit 2>/dev/null && exit
git -c safe.directory="$(pwd -P)" describe --always --dirty 2>/dev/null && exit
head=$(cat .git/HEAD 2>/dev/null) || exit 1
case $head in
"ref: "*) head=$(cat ".git/${head#ref: }" 2>/dev/null) || exit 1 ;;
esac
expr "$head" : '\(.......\)'
