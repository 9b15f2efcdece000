import { writeSync } from 'node:fs'
import { findChromium } from './find-chromium.js'
import { hasSwift, SWIFT_PACKAGES } from './find-swift.js'

/** Prints `N passed, N failed` as the very last line of a run, so that a person or a script need not parse Jest's summary. */
export default class TotalsReporter {
  onRunComplete(_contexts, results) {
    // A file that does not even load has no failed test of its own, and must not pass for a success.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
    const skipped = 'Skipped: the tests in a browser (*.browser.*). Install chromium, or set CHROMIUM to one.\n'
    // Jest prints its summary and the coverage table after the reporters that a configuration names.
    process.once('exit', () => {
      if (findChromium() === undefined) writeSync(1, skipped)
      if (!hasSwift())
        writeSync(1, `Skipped: the slow tests on OpenStack Swift (*.swift.*). Install ${SWIFT_PACKAGES}.\n`)
      writeSync(1, `${results.numPassedTests} passed, ${failed} failed\n`)
    })
  }
}
