/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The commands of `lodic`, one row each, in the order of its --help. COMMAND(stat, text) is the
 * function command_stat(), and --help has the text. cli/command.h declares all of them, and
 * cli/main.c runs them. There is no guard, because the includer says what a row means.
 */
COMMAND(demo,
        "demo    Read a large file of this system through the cache, compare every\n"
        "          byte with the file, and compare the ways to read it.")
COMMAND(serve,
        "serve   Run the cache's service. Programs that use liblodic start it by\n"
        "          themselves.")
COMMAND(stat, "stat    Show what the running cache holds and what it has done.")
COMMAND(files, "files   Show which files it holds, and why it does not hold others.")
COMMAND(who, "who     Show which programs read through it.")
COMMAND(load, "load    Load files into it, before programs ask for them.")
COMMAND(drop, "drop    Make it let files go.")
COMMAND(resize, "resize  Give it another size.")
COMMAND(stop, "stop    End it.")
COMMAND(tier, "tier    Show what lies in fast and in slow memory, and move files.")
COMMAND(bench, "bench   Measure what a pin, a read and the cache's tables cost here.")
COMMAND(run, "run     Run an unmodified program, and serve its reads from the cache.")
COMMAND(map, "map     Run a program, and map the files that it reads again and again.\n"
             "          This helps on a kernel with LODIC only.")
COMMAND(doctor,
        "doctor  Run a program without the cache, and say what it would gain by it.")
