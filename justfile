# The project's chores under short names; `cargo xtask` has them all.

test *ARGS:
    cargo xtask test {{ARGS}}

check:
    cargo xtask check

shared:
    cargo xtask shared
