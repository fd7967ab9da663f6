"""Speed as ratios: each command measures ours and a peer or a limit in the same run. CI never judges a time."""
