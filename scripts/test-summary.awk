# Sums up the output of `cargo test`: the programs that took longest, then all in one line.
#
# Counts the lines "test result: ok. 12 passed; 0 failed; 1 ignored; ...". A program that died of a signal before its
# line, or a doc test that does not compile, counts as one failure.
/^ *Running / { program = $2 == "unittests" ? $4 : $2 " " $3 }
/^ *Doc-tests / { program = "doc tests of " $2 }
/^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
        if ($(i + 1) == "ignored;") ignored += $i
        if ($i == "finished" && $(i + 1) == "in") took[program] += $(i + 2)
    }
    programs++
}
/process didn't exit successfully.*\(signal: / || /^error: could not compile / { failed++ }
END {
    printf "\nThe programs that took longest:\n"
    for (shown = 0; shown < 15; shown++) {
        longest = ""
        for (name in took) if (took[name] > 0 && (longest == "" || took[name] > took[longest])) longest = name
        if (longest == "") break
        printf "%7.0f s  %s\n", took[longest], longest
        delete took[longest]
    }
    if (built) printf "%7d s  building\n", built
    printf "\n%d passed, %d failed", passed, failed
    if (ignored) printf ", %d ignored", ignored
    printf " (%d test programs)\n", programs
}
