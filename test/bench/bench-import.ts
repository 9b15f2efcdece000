import { execFileSync } from 'node:child_process'
import { median } from './median.js'
import { printFigure } from './report-figure.js'

const MEASURE = `const { performance: p } = require('node:perf_hooks'); const startedAt = p.now()
import('express-did-auth').then(() => console.log(p.now() - startedAt))`

/** P8: how long the import of the package takes. How many packages come along is counted by test/slow/packed/library.slow.test.ts. */
export function measureImport(): void {
  const milliseconds = Array.from({ length: 9 }, () =>
    Number(execFileSync(process.execPath, ['-e', MEASURE], { encoding: 'utf8' }))
  )
  printFigure(`P8 import of the package, median of 9: ${median(milliseconds).toFixed(0)} ms (goal <= 150 ms)`)
}
