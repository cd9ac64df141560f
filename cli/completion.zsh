#compdef waymark
# SPDX-License-Identifier: MIT
# Completion of waymark(1) for zsh: `waymark complete` knows what there is.
local -a found
found=(${(f)"$(waymark complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
((${#found})) && compadd -S '' -- $found || _files
