# Sums up the output of `cargo test` in one line.
#
# Counts the lines "test result: ok. 12 passed; 0 failed; 1 ignored; ...". A program that died of a signal before its
# line, or a doc test that does not compile, counts as one failure.
/^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
        if ($(i + 1) == "ignored;") ignored += $i
    }
    programs++
}
/process didn't exit successfully.*\(signal: / || /^error: could not compile / { failed++ }
END {
    printf "\n%d passed, %d failed", passed, failed
    if (ignored) printf ", %d ignored", ignored
    printf " (%d test programs)\n", programs
}
