"""Runs the unit tests of this folder; needs no program but Python.

Promises  the last line has the form of cargo's test programs, so that scripts/test-summary.awk counts these tests with them
          exit code 0 only where every test passed
"""

import sys
import unittest
from pathlib import Path


def main():
    folder = str(Path(__file__).resolve().parent)
    outcome = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(unittest.defaultTestLoader.discover(folder))
    failed, ignored = len(outcome.failures) + len(outcome.errors) + len(outcome.unexpectedSuccesses), len(outcome.skipped)
    passed = outcome.testsRun - failed - ignored - len(outcome.expectedFailures)
    # A test file that cannot be imported is one error and one run.
    verdict = "ok" if outcome.wasSuccessful() and passed else "FAILED"
    print(f"test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out", flush=True)
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
