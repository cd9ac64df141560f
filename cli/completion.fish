# SPDX-License-Identifier: MIT
# Completion of waymark(1) for fish: `waymark complete` knows what there is.
complete -c waymark -a '(waymark complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
