import { writeSync } from 'node:fs'
import { missingEngines } from './find-engines.js'

/**
 * Prints `N passed, N failed` as the last line of a run, so that people and scripts need not parse Jest's
 * summary.
 */
export default class TotalsReporter {
  onRunComplete(_contexts, results) {
    // A file that fails to load has no failed tests, but counts as a failure.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
    // Jest prints its summary and the coverage table after the configured reporters.
    process.once('exit', () => {
      for (const { what, files, packages } of missingEngines()) {
        writeSync(1, `Skipped: the tests on ${what} (${files}). Install ${packages.join(' ')}.\n`)
      }
      writeSync(1, `${results.numPassedTests} passed, ${failed} failed\n`)
    })
  }
}
