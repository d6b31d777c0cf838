#!/usr/bin/env python3
"""The deepest stack of the library's functions, by the graph of calls that GCC writes.

Does: add up the frames of the longest chain of calls from each function of the interface, and fail if insert, query or seal takes more than is
promised. What is painted in a run (count.c) is what that run took; this is what any run can take.
Does not: count the callbacks of the flash, and functions of the C library and of the compiler (memcpy, floats in software), which call nothing back.
Next: edge/src/ne_internal.h, NE_APART.

`stack.py FOLDER COMPILER FLAGS...` compiles edge/src into FOLDER.
"""
import collections
import glob
import os
import re
import subprocess
import sys

PROMISED = 512
HELD = {"ne_insert", "ne_insert_rows", "ne_query_next", "ne_maintain"}
SHOWN = ["ne_open", "ne_insert", "ne_insert_rows", "ne_query_next", "ne_maintain", "ne_rollup_of", "ne_next_page", "ne_usage_of"]


def graph(folder):
    frames, calls = {}, collections.defaultdict(set)
    for path in glob.glob(os.path.join(folder, "*.ci")):
        with open(path, encoding="ascii") as file:
            text = file.read()
        for title, label in re.findall(r'node: \{ title: "([^"]+)" label: "([^"]*)"', text):
            frame = re.search(r"(\d+) bytes \((\w+)", label)
            if frame:
                if frame.group(2) != "static":
                    sys.exit(f"the frame of {title} is not known before it runs")
                frames[title] = int(frame.group(1))
        for caller, called in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            calls[caller].add(called)
    return frames, calls


def deepest(name, frames, calls, above=()):
    if name in above:
        sys.exit(f"recursion: {' > '.join(above)} > {name}")
    below = max((deepest(called, frames, calls, above + (name,)) for called in calls.get(name, ())), default=(0, ()))
    return frames.get(name, 0) + below[0], (name,) + below[1]


def main():
    folder, compiler = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for source in sorted(glob.glob("edge/src/*.c")):
        out = os.path.join(folder, os.path.basename(source)[:-2] + ".o")
        subprocess.run(compiler + ["-fcallgraph-info=su", "-c", source, "-o", out], check=True)
    frames, calls = graph(folder)
    bad = False
    for name in SHOWN:
        if name not in frames:
            sys.exit(f"no function {name} in the graph: the compiler writes another form of it")
        size, chain = deepest(name, frames, calls)
        links = " > ".join(f"{link.split(':')[-1].split('.')[0]} {frames.get(link, 0)}" for link in chain)
        print(f"edge: stack of {name}: at most {size} bytes ({links})")
        bad = bad or (name in HELD and size > PROMISED)
    if bad:
        sys.exit(f"more than the {PROMISED} bytes that are promised")


main()
