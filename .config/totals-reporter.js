import { writeSync } from 'node:fs'
import { missingEngines } from './find-engines.js'

/**
 * Prints `N passed, N failed` as the very last line of a run, so that a person or a script need not parse Jest's
 * summary.
 */
export default class TotalsReporter {
  onRunComplete(_contexts, results) {
    // A file that does not even load has no failed test of its own, and must not pass for a success.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
    // Jest prints its summary and the coverage table after the reporters that a configuration names.
    process.once('exit', () => {
      for (const { what, files, packages } of missingEngines()) {
        writeSync(1, `Skipped: the tests on ${what} (${files}). Install ${packages.join(' ')}.\n`)
      }
      writeSync(1, `${results.numPassedTests} passed, ${failed} failed\n`)
    })
  }
}
