# Passes the output of `cargo test` through and ends with one line that sums up all of its test programs.
#
# Counts the lines "test result: ok. 12 passed; 0 failed; 1 ignored; ...". A program that died before its line
# (a crash, a build error) shows in cargo's own exit code, which the caller must keep (set -o pipefail).
{ print; fflush() }
/^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
        if ($(i + 1) == "ignored;") ignored += $i
    }
    programs++
}
END {
    printf "\n%d passed, %d failed", passed, failed
    if (ignored) printf ", %d ignored", ignored
    printf " (%d test programs)\n", programs
}
