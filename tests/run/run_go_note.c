/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What Go's linker leaves in each program, so that run_reader looks as if it were one with parts
 * in C. A program by Go itself takes 20 s to build. */
__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
        ".balign 4\n"
        ".long 4, 8, 4\n"
        ".asciz \"Go\\0\"\n"
        ".ascii \"build/id\"\n"
        ".popsection\n");
