"""What perf/compare is made of. Standard library only.

processes   runs programs with a limit of time and leaves none behind
build       builds what is compared
programs    what is measured, and how its output is read
peers       which other libraries are there
session     runs everything in turn
machine     what was measured on
report      the JSON file: written, read, merged
limit       the physical limit, from measured bandwidths
table       medians and ratios, and their text
chart       one picture of a table
markdown    a table for a document
command     the command line
"""
