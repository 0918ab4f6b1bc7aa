# Sums up the output of `cargo test`: the programs that took longest, the last words of what failed, then all in one line.
#
# Counts the lines "test result: ok. 12 passed; 0 failed; 1 ignored; ...". A program or a command that ended badly but told
# of no failed test counts as one failure. Lines that begin with "  | " are shown for the second time.
# libtest tells what each test said below "failures:" and "successes:": of the first, the last lines, without the calls of a backtrace.
/^failures:/ { failing = 1; test = "" }
/^successes:/ || /^test result: / || /^ *Running / { failing = 0 }
/^---- .* stdout ----$/ { test = failing ? $2 : ""; if (test) order[++tests] = test }
failing && test && !/^---- / && NF && !/^ +[0-9]+: / && !/^ +at / && !/^stack backtrace/ && !/^note: / { said[test, ++lines[test]] = $0 }

/^ *Running / { told = 0; program = $2 == "unittests" ? $4 : $2 " " $3 }
/^ *Doc-tests / { program = "doc tests of " $2 }
/^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") { failed += $i; told += $i }
        if ($(i + 1) == "ignored;") ignored += $i
        if ($i == "finished" && $(i + 1) == "in") took[program] += $(i + 2)
    }
    programs++
}
(/process didn't exit successfully/ && !/^  \| /) || /^error: could not compile / { if (!told) failed++; told = 0 }
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
    for (at = 1; at <= tests; at++) {
        printf "\n---- %s\n", order[at]
        last = lines[order[at]]
        for (n = last > 20 ? last - 19 : 1; n <= last; n++) print substr(said[order[at], n], 1, 500)
    }
    printf "\n%d passed, %d failed", passed, failed
    if (ignored) printf ", %d ignored", ignored
    printf " (%d test programs)\n", programs
}
